"""Times matmuls of few rows on a GPU: cuBLASLt's fastest kernel against kernels of tf_stitch that compute them as sums
(passes/lower_gemv_to_reduction.py), by the rules and by other tilings, as nodes of CUDA graphs that wait for each
other.

    python -m tools.skinny_matmuls --build_only    builds the kernels; needs no GPU
    python -m tools.skinny_matmuls                 where a GPU and CuPy are; TensorFlow is not needed
    python -m tools.skinny_matmuls --grid          and the library's times over a grid, as a profile's `matmuls`

Matrices: each node reads another one, so that they come from memory as in a step of a model ("cold"), or all the same
("warm"). Every kernel's result is compared with float64. Writes benchmarks/skinny_matmuls.md and its rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tf_stitch.device.spec import H200
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.runtime.device_run import bind_launch
from tf_stitch.runtime.kernel_cache import KernelCache
from tools.benchmark.cublas_lt import COLD, CublasLt, Operands, fastest_calls
from tools.benchmark.graph_nodes import node_us
from tools.benchmark.machine import describe_cuda
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, write_rows
from tools.benchmark.skinny_cases import BuiltKernel, Case, cases
from tools.calibrate.few_rows import few_rows
from tools.calibrate.measure import rounded
from tools.h200_subgraphs import copy_gbps

ROOT = Path(__file__).resolve().parents[1]


TOLERANCE = 1e-5
"""Largest error of a sum in float32, relative to the mean magnitude of the results."""

Row = dict[str, Any]
Calls = Sequence[Callable[[], None]]


def kernel_calls(built: BuiltKernel, operands: Operands) -> Calls:
    """Launches with each matrix."""
    import cupy

    module, kernel = cupy.RawModule(path=str(built.cubin)), built.kernel
    found = []
    for w in operands.matrices:
        arrays = {"x": operands.x, "w": w, "y": operands.y}
        words = [int(arrays[key].data.ptr) for key in built.arguments]
        found.append(bind_launch(module, kernel.symbol, kernel.grid, kernel.threads, kernel.shared_bytes, words))
    return found


def timed_row(case: Case, kernels: Sequence[BuiltKernel], lt: CublasLt) -> Row:
    """Microseconds by the library, by the rules' kernel and by the others."""
    operands = Operands(case.gemm)
    library = fastest_calls(lt, case.gemm, operands)
    tilings = []
    for built in kernels:
        calls = kernel_calls(built, operands)
        operands.y.fill(float("nan"))
        calls[0]()
        error = operands.error()
        tilings.append({"name": built.name, "us": round(node_us(*calls), 3), "warm_us": round(node_us(calls[0]), 3),
                        "right": error < TOLERANCE})  # fmt: skip
    program = case.kernels[0].program
    return {"name": case.name, "library_us": round(node_us(*library), 3),
            "library_warm_us": round(node_us(library[0]), 3), "rules": tilings[0],
            "predicted_us": round(predict_us(program, H200, COLD), 3),
            "predicted_warm_us": round(predict_us(program, H200), 3), "matrix_bytes": operands.matrices[0].nbytes,
            "tilings": sorted(tilings[1:], key=lambda t: t["us"]),
            "right": all(t["right"] for t in tilings)}  # fmt: skip


def table(document: Row) -> str:
    """The rows as Markdown."""
    lines = ["# Matmuls of few rows", "", f"{document['machine']}, copy {document['copy_gbps']} GB/s. "
             f"Made by `{document['command']}`.", "", "Microseconds of a node in a CUDA graph, matrices from memory "
             "(from a cache in parentheses).", "",
             "| matmul | floor | cuBLASLt | family | predicted | fastest tiling | |", "| --- " * 7 + "|"]  # fmt: skip
    for row in document["rows"]:
        best = row["tilings"][0] if row["tilings"] else row["rules"]
        floor = row["matrix_bytes"] / document["copy_gbps"] / 1e3
        lines.append(f"| {row['name']}{'' if row['right'] else ' WRONG'} | {floor:.2f} | "
                     f"{row['library_us']:.2f} ({row['library_warm_us']:.2f}) | "
                     f"{row['rules']['us']:.2f} ({row['rules']['warm_us']:.2f}) | "
                     f"{row['predicted_us']:.2f} ({row['predicted_warm_us']:.2f}) | "
                     f"{best['us']:.2f} ({best['warm_us']:.2f}) | `{best['name']}` |")  # fmt: skip
    return "\n".join(lines) + "\n"


def _free() -> None:
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()


def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--build_only", action="store_true", help="build all kernels and stop")
    flags.add_argument("--grid", action="store_true", help="the library's times over a grid, too")
    flags.add_argument("--jobs", type=int, default=4, help="kernels that are built at once")
    flags.add_argument("--only", default="", help="matmuls whose name has this")
    flags.add_argument("--cache", type=Path, default=Path("~/.cache/tf_stitch/skinny_matmuls").expanduser())
    flags.add_argument("--out", type=Path, default=raw_rows("skinny_matmuls"))
    args = flags.parse_args()
    start = time.perf_counter()
    wanted = [case for case in cases() if args.only in case.name]
    with ThreadPoolExecutor(args.jobs) as pool:
        kernels = list(pool.map(partial(Case.build, cache=KernelCache(args.cache)), wanted))
    print(f"{sum(map(len, kernels))} kernels built, {time.perf_counter() - start:.0f} s", flush=True)
    if args.build_only:
        return 0
    lt = CublasLt()
    document: Row = {"command": command_line(sys.argv),
                     "machine": describe_cuda(), "copy_gbps": round(copy_gbps()), "rows": []}  # fmt: skip
    _free()
    for case, built in zip(wanted, kernels, strict=True):
        document["rows"].append(timed_row(case, built, lt))
        _free()
        write_rows(args.out, document)
        page_of(args.out).write_text(table(document))
        print(f"{case.name}, {time.perf_counter() - start:.0f} s", flush=True)
    print(table(document), flush=True)
    if args.grid:
        write_rows(args.out, document | {"matmuls": rounded(few_rows())})
    return 0 if all(row["right"] for row in document["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
