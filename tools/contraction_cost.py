"""What it costs that kernels round every op by itself: the kernels of benchmarking.subgraphs without and with
contraction of products and sums to fma, in turns, on this machine's CPU (one thread) or GPU.

    python -m tools.contraction_cost                    CPU: 2^16 elements a matrix, in its caches
    python -m tools.contraction_cost --target=cuda      GPU: 2^20 elements, in its caches
    python -m tools.contraction_cost --elements=28      2^28 elements: what memory leaves of it

Times are medians over the turns, in microseconds, with quartiles. docs/decisions/rounding.md has the results.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from statistics import quantiles

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.compiler.program_times import timed_kernels
from tf_stitch.config import load_config
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.runtime import host_builder, nvrtc_builder
from tf_stitch.runtime.device_run import time_on_device
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_timer import time_on_host, with_timer
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tf_stitch.runtime.timed_kernel import TimedKernel
from tools.benchmark.machine import describe_cpu, describe_cuda
from tools.benchmark.subgraphs import SUBGRAPHS, Subgraph

ROOT = Path(__file__).resolve().parents[1]


WIDEST = 1024
"""Columns of a matrix, where its rows are not the only ones."""
CONTRACTS = {"-ffp-contract=off": "-ffp-contract=fast", "--fmad=false": "--fmad=true"}
"""An option of the builders, and the one that was before."""


def sized(subgraph: Subgraph, elements: int) -> Subgraph:
    """The subgraph with so many elements in its matrices."""
    columns = elements if subgraph.rows == 1 else min(subgraph.columns, WIDEST)
    name = f"{subgraph.formula.__name__.replace('_', ' ')} {elements // columns}x{columns}"
    return replace(subgraph, name=name, rows=elements // columns, columns=columns)


def built(subgraph: Subgraph, device: DeviceSpec, cache: KernelCache) -> tuple[list[TimedKernel], list[Path]]:
    """Its kernels, and binaries of them without contraction and with it."""
    region = compile_region(subgraph.graph(), subgraph.inputs(), subgraph.variables(),
                            CompileOptions(device, PlanOptions("ilp")))  # fmt: skip
    source, kernels = timed_kernels([kernel.program for kernel in region.kernels], device)
    build, options = (build_cuda, nvrtc_builder.OPTIONS) if device.simt else (build_host, host_builder.OPTIONS)
    source, architecture = (source, device.architecture) if device.simt else (with_timer(source), "native")
    contracted = tuple(CONTRACTS.get(option, option) for option in options)
    return kernels, [build(source, architecture, cache, chosen) for chosen in (options, contracted)]


def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--target", choices=["cpu", "cuda"], default="cpu")
    flags.add_argument("--elements", type=int, help="of a matrix, as a power of two")
    flags.add_argument("--rounds", type=int, default=15)
    args = flags.parse_args()
    device = H200 if args.target == "cuda" else CPU
    elements = 1 << (args.elements or (20 if device.simt else 16))
    time = time_on_device if device.simt else time_on_host
    cache = KernelCache(load_config().cache_dir / "kernels")
    print(describe_cuda() if device.simt else describe_cpu())
    print("| subgraph | each op rounds | contracted | ratio |\n| --- | --- | --- | --- |")
    for subgraph in {s.name: s for s in (sized(s, elements) for s in SUBGRAPHS)}.values():
        kernels, paths = built(subgraph, device, cache)
        turns = [[sum(time(path, kernels)) for path in paths] for _ in range(args.rounds + 1)][1:]
        (low, off, high), (low_fast, fast, high_fast) = (quantiles(column, n=4) for column in zip(*turns, strict=True))
        ratio = quantiles([a / b for a, b in turns], n=4)
        print(f"| {subgraph.name} | {off:.2f} ({low:.2f} - {high:.2f}) | {fast:.2f} ({low_fast:.2f} - {high_fast:.2f}) "
              f"| {ratio[1]:.3f} ({ratio[0]:.3f} - {ratio[2]:.3f}) |", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
