"""What FusionStitching's Fig. 6, Fig. 8 and Table 4 say of fused patterns, from a report of tf_stitch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

CATEGORIES = ("elementwise", "reduction", "gemm")

_REDUCTIONS = ("row", "column", "mixed", "scan")


def category(kernel: Mapping[str, Any], ops: Mapping[str, str]) -> str:
    """FusionStitching, section 6.4: gemm before reduction before elementwise.

    Args:
        kernel: an entry of the report's kernels.
        ops: node of its region -> op.
    """
    found = [ops.get(node, "") for node in kernel["nodes"]]
    if kernel["rule"] == "library" or any("MatMul" in op or op == "Einsum" for op in found):
        return "gemm"
    return "reduction" if kernel["rule"].startswith(_REDUCTIONS) else "elementwise"


def pattern_facts(report: Mapping[str, Any]) -> dict[str, Any]:
    """Of the fused kernels, library calls that nothing follows left out: how many and their predicted microseconds by
    category, how many reserve shared memory, their share of the predicted time, and the bytes that they reserve, work
    in, and would work in without reuse."""
    nodes = {region["id"]: region["nodes"] for region in report["regions"]}
    kernels = [kernel for kernel in report["kernels"] if kernel["rule"] != "library" or kernel["schemes"]]
    number: Counter[str] = Counter()
    predicted: dict[str, float] = dict.fromkeys(CATEGORIES, 0.0)
    for kernel in kernels:
        kind = category(kernel, nodes.get(kernel["region"], {}))
        number[kind] += 1
        predicted[kind] += kernel["predicted_us"]
    shared = [kernel for kernel in kernels if kernel["shared_bytes"]]
    return {"number": {c: number[c] for c in CATEGORIES}, "predicted_us": predicted, "shared": {
        "kernels": len(shared),
        "predicted_us": sum(kernel["predicted_us"] for kernel in shared),
        "largest_bytes": max((kernel["shared_bytes"] for kernel in shared), default=0),
        "bytes": sum(kernel["shared_bytes"] for kernel in shared),
        "scratch_bytes": sum(kernel["scratch_bytes"] for kernel in shared),
        "requested_bytes": sum(kernel["requested_bytes"] for kernel in shared),
    }}  # fmt: skip


def graph_size(report: Mapping[str, Any]) -> int:
    """Nodes of the largest graph that TensorFlow optimized."""
    return max((len(graph["nodes"]) for graph in report["graphs"]), default=0)
