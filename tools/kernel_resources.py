"""What the launches of plans take of an H200, by the compiler; needs no GPU: registers, spills, shared memory. Of the
subgraphs that tf_stitch is measured by, and of the scripts and the zoo's models (small configurations), from texts that
tools/zoo_graphs.py made.

    python tools/kernel_resources.py                      all, some minutes: benchmarks/kernel_resources.json and .md
    python tools/kernel_resources.py --programs=bert,asr --out=/tmp/some.json

Exits with 1 if a kernel spills.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from absl import app, flags

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from costing.cases import program_regions, programs, subgraph_regions  # noqa: E402
from tf_stitch.config import load_config  # noqa: E402
from tf_stitch.device.spec import H200, DeviceSpec  # noqa: E402
from tf_stitch.emit.cuda import Packed, emit_cuda  # noqa: E402
from tf_stitch.kernel_ir.cost import array_bytes, requested_bytes, shared_bytes  # noqa: E402
from tf_stitch.kernel_ir.nodes import Program  # noqa: E402
from tf_stitch.kernel_ir.occupancy import launch_bound  # noqa: E402
from tf_stitch.pipeline import CompiledRegion  # noqa: E402
from tf_stitch.runtime.kernel_cache import KernelCache  # noqa: E402
from tf_stitch.runtime.nvrtc_builder import build_cuda, resources_of  # noqa: E402

_PROGRAMS = flags.DEFINE_list("programs", None, "models and scripts' steps; none given: all, and the subgraphs")
_OUT = flags.DEFINE_string("out", str(ROOT / "benchmarks" / "kernel_resources.json"), "with a .md beside it")
TOGETHER = 60
"""Launches of one source."""

Launch = tuple[Program, ...]


def main(_: Sequence[str]) -> int:
    start = time.perf_counter()
    found: dict[Launch, str] = {}  # the first program that has it
    if _PROGRAMS.value is None:
        for _name, region in subgraph_regions(H200):
            collect("subgraphs", [region], found)
    for name in programs() if _PROGRAMS.value is None else _PROGRAMS.value:
        collect(name, program_regions(H200, name), found)
        print(f"{name}: {len(found)} launches", file=sys.stderr)
    planned = time.perf_counter()
    rows = measured(found, H200, KernelCache(load_config().cache_dir / "kernels"))
    document = {"architecture": H200.architecture, "date": time.strftime("%Y-%m-%d"),
                "seconds": {"plan": round(planned - start, 1), "build": round(time.perf_counter() - planned, 1)},
                "summary": summary(rows), "launches": rows}  # fmt: skip
    out = Path(_OUT.value)
    out.write_text(json.dumps(document, indent=1) + "\n")
    out.with_suffix(".md").write_text(markdown(document))
    print(markdown(document))
    return int(document["summary"]["all"]["spilling"] > 0)


def collect(name: str, regions: Sequence[CompiledRegion], found: dict[Launch, str]) -> None:
    """Adds the launches of regions that no region before had."""
    for region in regions:
        for launch in region.programs.values():
            found.setdefault(launch, name)


def measured(launches: Mapping[Launch, str], device: DeviceSpec, cache: KernelCache) -> list[dict[str, Any]]:
    """A row for each launch."""
    rows: list[dict[str, Any]] = []
    items = list(launches.items())
    for first in range(0, len(items), TOGETHER):
        rows += _batch(items[first : first + TOGETHER], device, cache)
    return rows


def _batch(items: Sequence[tuple[Launch, str]], device: DeviceSpec, cache: KernelCache) -> list[dict[str, Any]]:
    number: dict[Program, int] = {}
    packed = [Packed(f"launch_{i}", tuple(number.setdefault(program, len(number)) for program in launch),
                     launch_bound(launch, device)) for i, (launch, _) in enumerate(items)]  # fmt: skip
    source = emit_cuda([(f"stitch_{i}", program) for i, program in enumerate(number)], packed)
    taken = resources_of(build_cuda(source, device.architecture, cache))
    return [{
        "program": name, "grid": sum(p.grid for p in launch), "threads": launch[0].threads,
        "cooperative": launch[0].cooperative, "resident": one.resident, **asdict(taken[one.name]),
        "shared_bytes": max(map(shared_bytes, launch)), "scratch_bytes": sum(map(array_bytes, launch)),
        "requested_bytes": sum(map(requested_bytes, launch)),
    } for one, (launch, name) in zip(packed, items, strict=True)]  # fmt: skip


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of all, and of each program; alloc/req (FusionStitching, Table 4) of launches with shared arrays."""
    found = {}
    for name in ["all", *dict.fromkeys(row["program"] for row in rows)]:
        mine = [row for row in rows if name in ("all", row["program"])]
        shared = [row for row in mine if row["shared_bytes"]]
        requested = sum(row["requested_bytes"] for row in shared)
        found[name] = {
            "launches": len(mine), "spilling": sum(row["spilled_bytes"] > 0 for row in mine),
            "most_registers": max(row["registers"] for row in mine),
            "most_shared_bytes": max(row["shared_bytes"] + row["static_shared_bytes"] for row in mine),
            "with_shared_arrays": len(shared),
            "alloc_req": round(sum(row["scratch_bytes"] for row in shared) / requested, 3) if requested else None,
        }  # fmt: skip
    return found


def markdown(document: Mapping[str, Any]) -> str:
    """The table for people, and the launches that spill."""
    seconds = document["seconds"]
    lines = ["# What kernels take of an H200", "",
             "Registers of a thread, bytes spilled and shared memory of a block, as NVRTC's ptxas reports them; a "
             "launch that several programs have counts for the first. alloc/req: bytes of a block's arrays over those "
             "that they would take without sharing memory, of launches with shared arrays (FusionStitching, Table 4).",
             "", f"Made by `python tools/kernel_resources.py` for sm_{document['architecture']} on "
             f"{document['date']}: planned in {seconds['plan']} s, built in {seconds['build']} s.", "",
             "| program | launches | spilling | most registers | most shared bytes | with shared arrays | alloc/req |",
             "| --- " * 7 + "|"]  # fmt: skip
    for name, row in document["summary"].items():
        ratio = "-" if row["alloc_req"] is None else f"{row['alloc_req']:.2f}"
        lines.append(f"| {name} | {row['launches']} | {row['spilling']} | {row['most_registers']} | "
                     f"{row['most_shared_bytes']} | {row['with_shared_arrays']} | {ratio} |")  # fmt: skip
    spilling = [row for row in document["launches"] if row["spilled_bytes"]]
    lines += ["", "No kernel spills." if not spilling else "Kernels that spill:", ""]
    lines += [f"- {row['program']}: {row['grid']} x {row['threads']}, {row['registers']} registers, "
              f"{row['spilled_bytes']} bytes" for row in spilling]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    app.run(main)
