"""Times the subgraphs of benchmarking.subgraphs on a GPU: tf_stitch, JAX's XLA, torch.compile, and a copy's floor.

Needs CuPy; measures JAX and PyTorch where they are installed; does not need TensorFlow. Every output is checked
against float64 maths on random inputs that differ from run to run. Writes benchmarks/h200_subgraphs.md and its rows.

    python -m tools.h200_subgraphs                  everything, on a GPU
    python -m tools.h200_subgraphs --compile_only   builds all kernels; needs no GPU
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.device.spec import H200
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.runtime.device_run import DeviceExecutable
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tf_stitch.schedule.reuse import Reuse
from tools.benchmark.maths import array_maths, jax_maths, torch_maths
from tools.benchmark.raw_rows import page_of, raw_rows, write_rows
from tools.benchmark.subgraphs import IRREGULAR, KEEP, SUBGRAPHS, Subgraph

ROOT = Path(__file__).resolve().parents[1]


WARM_UP, RUNS = 5, 20
PROCESSES = 8
"""That compile; each holds a CUDA context, and the tensors of a subgraph for Inductor's first call."""
TOLERANCE = 1e-4
"""Largest error allowed, relative to the value plus the mean magnitude of its tensor."""

Row = dict[str, Any]


def build(subgraph: Subgraph, cache: KernelCache, reuse: Reuse = Reuse.MERGED,
          templates: TemplateChoice | None = None) -> tuple[CompiledRegion, Path]:  # fmt: skip
    """Compiles for the H200 down to a cubin."""
    solver = "ilp" if importlib.util.find_spec("pulp") else "greedy"
    options = CompileOptions(H200, PlanOptions(solver), reuse=reuse, templates=templates)
    region = compile_region(subgraph.graph(), subgraph.inputs(), subgraph.variables(), options)
    return region, build_cuda(region.source, H200.architecture, cache)


def random_values(subgraph: Subgraph, seed: int) -> dict[str, Any]:
    """CuPy arrays for all operands."""
    import cupy

    random = cupy.random.RandomState(seed)
    values = {}
    for name, operand in subgraph.operands.items():
        shape = subgraph.shape(name)
        if operand.kind == "labels":
            values[name] = random.randint(0, subgraph.columns, shape, dtype=cupy.int32)
        elif operand.kind == "mask":
            kept = random.random_sample(shape, dtype=cupy.float32) < KEEP
            values[name] = kept.astype(cupy.float32) / cupy.float32(KEEP)
        elif operand.kind == "positive":
            values[name] = random.random_sample(shape, dtype=cupy.float32) + cupy.float32(0.5)
        else:
            values[name] = random.standard_normal(shape, dtype=cupy.float32)
    return values


def reference(subgraph: Subgraph, values: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs in float64."""
    import cupy
    from cupyx.scipy.special import erf

    wide = {name: v.astype(cupy.float64) if v.dtype == cupy.float32 else v for name, v in values.items()}
    return subgraph.evaluate(array_maths(cupy, erf), wide)


def largest_error(actual: Any, wanted: Any) -> float:
    """The error that TOLERANCE bounds; NaN if the result has one."""
    import cupy

    scale = cupy.abs(wanted).mean()
    return float((cupy.abs(actual - wanted) / (cupy.abs(wanted) + scale)).max())


def median_us(call: Callable[[], None]) -> float:
    """Median microseconds of a call that enqueues work on CuPy's stream, by events; the queue never runs dry."""
    import cupy

    for _ in range(WARM_UP):
        call()
    marks = [cupy.cuda.Event() for _ in range(RUNS + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    marks[-1].synchronize()
    return median(float(cupy.cuda.get_elapsed_time(a, b)) * 1e3 for a, b in itertools.pairwise(marks))


def copy_gbps() -> float:
    """10^9 bytes a second that a device-to-device copy of 1 GiB reads and writes."""
    import cupy

    source = cupy.zeros(1 << 30, cupy.uint8)
    target = cupy.empty_like(source)
    microseconds = median_us(lambda: cupy.copyto(target, source))
    return 2 * int(source.nbytes) / microseconds / 1e3


def time_stitch(subgraph: Subgraph, cache: KernelCache, seed: int, reuse: Reuse = Reuse.MERGED,
                templates: TemplateChoice | None = None) -> Row:  # fmt: skip
    """Time and largest error of tf_stitch's kernels."""
    region, cubin = build(subgraph, cache, reuse, templates)
    values = random_values(subgraph, seed)
    wanted = reference(subgraph, values)
    run = DeviceExecutable(region.executable, cubin, values, values)
    run()
    names = [name for name, _ in region.plan.graph.outputs if name not in subgraph.variables()]
    results = {name: output[:t.nbytes].view(t.dtype.numpy)
               for name, output, t in zip(names, run.outputs, region.executable.outputs, strict=True)}  # fmt: skip
    results |= {name: value.view("float32") for name, value in run.state.items()}
    # NumPy's max keeps a NaN, Python's may lose it.
    error = float(np.max([largest_error(results[n].reshape(wanted[n].shape), wanted[n]) for n in wanted]))
    del wanted
    return {"stitch_us": median_us(run), "max_error": error, "launches": len(region.executable.steps)}


def time_jax(subgraph: Subgraph, seed: int) -> float:
    """Median microseconds of `jax.jit`, from groups of calls: JAX's stream takes no events of others."""
    import jax

    maths = jax_maths(jax)
    values = {name: jax.dlpack.from_dlpack(v) for name, v in random_values(subgraph, seed).items()}
    compiled = jax.jit(lambda values: subgraph.evaluate(maths, values))
    for _ in range(WARM_UP):
        jax.block_until_ready(compiled(values))
    groups = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(RUNS):
            last = compiled(values)
        jax.block_until_ready(last)
        groups.append((time.perf_counter() - start) / RUNS * 1e6)
    return median(groups)


def torch_call(subgraph: Subgraph, seed: int) -> Callable[[], None]:
    """A call of what `torch.compile` makes."""
    import torch

    # Its kernels may be compiled side by side, but which of them are best is found out on a quiet GPU.
    torch._inductor.config.autotune_local_cache = False
    maths = torch_maths(torch)
    values = {name: torch.from_dlpack(v) for name, v in random_values(subgraph, seed).items()}
    torch._dynamo.reset()
    operands = namedtuple("operands", values)  # type: ignore[misc]  # a type that Dynamo can trace
    compiled = torch.compile(lambda *tensors: subgraph.formula(maths, operands(*tensors)), fullgraph=True)
    tensors = tuple(values.values())

    def call() -> None:
        with torch.no_grad():
            compiled(*tensors)

    return call


def time_torch(subgraph: Subgraph, seed: int) -> float:
    """Median microseconds of `torch.compile`, whose default stream is CuPy's."""
    return median_us(torch_call(subgraph, seed))


def prepare(arguments: tuple[Subgraph, Path, bool]) -> str:
    """Fills the caches of tf_stitch and, if wanted, Inductor, in a process of a pool; what went wrong."""
    subgraph, folder, inductor = arguments
    try:
        build(subgraph, KernelCache(folder))
        if inductor:
            torch_call(subgraph, 0)()
            free_memory()
    except Exception as error:  # it will be said again where it is measured
        return f"{subgraph.name}: {type(error).__name__}: {error}"
    return ""


def prepare_all(subgraphs: list[Subgraph], folder: Path, inductor: bool) -> None:
    """Compiles side by side; the processes are gone before anything is timed."""
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(min(PROCESSES, len(subgraphs))) as pool:
        for problem in pool.imap_unordered(prepare, [(s, folder, inductor) for s in subgraphs]):
            if problem:
                print(problem, file=sys.stderr, flush=True)
    print(f"compiled in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def measure(subgraph: Subgraph, cache: KernelCache, gbps: float, inductor: bool) -> Row:
    """A row of the table; what could not be measured says why on stderr and stays null."""
    seed = int.from_bytes(os.urandom(4), "little")
    kind = "peers" if subgraph in SUBGRAPHS else "irregular"
    row: Row = {"name": subgraph.name, "set": kind, "floor_us": subgraph.floor_bytes() / gbps / 1e3,
                "xla_us": None, "inductor_us": None, "stitch_us": None, "seed": seed}  # fmt: skip
    timers: dict[str, Callable[[], Any]] = {"stitch_us": lambda: time_stitch(subgraph, cache, seed)}
    if importlib.util.find_spec("jax"):
        timers["xla_us"] = lambda: time_jax(subgraph, seed)
    if inductor:
        timers["inductor_us"] = lambda: time_torch(subgraph, seed)
    for column, timer in timers.items():
        try:
            result = timer()
            row.update(result if isinstance(result, dict) else {column: result})
        except Exception as error:  # one failure must not cost the other measurements of a lent machine
            print(f"{subgraph.name}, {column}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        free_memory()
    row["right"] = "max_error" in row and row["max_error"] <= TOLERANCE
    return row


def free_memory() -> None:
    """Gives back what the last measurement held."""
    gc.collect()
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()


def table(rows: list[Row], machine: str) -> str:
    """The measurements as Markdown."""
    columns = ("floor_us", "xla_us", "inductor_us", "stitch_us")
    lines = ["# Memory-intensive subgraphs on a GPU", "", machine, "",
             "Microseconds, f32; floor = operands read once and outputs written once (batch norm: x twice) at the "
             "bandwidth of a copy measured in the same run. Made by `python -m tools.h200_subgraphs`.", "",
             "| subgraph | floor | XLA | Inductor | tf_stitch | / floor | XLA / tf_stitch | launches | error |",
             "| --- " * 9 + "|"]  # fmt: skip
    for row in rows:
        times = [f"{row[c]:.0f}" if row[c] else "-" for c in columns]
        stitch, xla = row["stitch_us"], row["xla_us"]
        floor_ratio = f"{stitch / row['floor_us']:.2f}" if stitch else "-"
        xla_ratio = f"{xla / stitch:.2f}" if stitch and xla else "-"
        error = f"{row['max_error']:.0e}" + ("" if row["right"] else " WRONG") if "max_error" in row else "-"
        cells = [row["name"], *times, floor_ratio, xla_ratio, str(row.get("launches", "-")), error]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def describe_machine(gbps: float) -> str:
    """The GPU, the date and the versions."""
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)
    versions = [f"{name} {sys.modules[name].__version__}" for name in ("cupy", "jax", "torch") if name in sys.modules]
    return (f"{device['name'].decode()}, {device['multiProcessorCount']} SMs, "
            f"CUDA driver {cupy.cuda.runtime.driverGetVersion()}, {', '.join(versions)}; {time.strftime('%Y-%m-%d')}; "
            f"copy {gbps:.0f} GB/s.")  # fmt: skip


def arguments() -> argparse.Namespace:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--compile_only", action="store_true", help="build all kernels and stop")
    flags.add_argument("--no_inductor", dest="inductor", action="store_false", help="leave torch.compile out")
    flags.add_argument("--only", default="", help="subgraphs whose name has this")
    flags.add_argument("--cache", type=Path, default=Path("~/.cache/tf_stitch/h200_subgraphs"), help="built kernels")
    flags.add_argument("--out", type=Path, default=raw_rows("h200_subgraphs"))
    return flags.parse_args()


def compile_all(subgraphs: list[Subgraph], cache: KernelCache) -> None:
    """Builds, and prints what each became."""
    for subgraph in subgraphs:
        start = time.perf_counter()
        region, cubin = build(subgraph, cache)
        rules = ", ".join(kernel.schedule.family for kernel in region.kernels)
        print(f"{subgraph.name}: {len(region.executable.steps)} launches ({rules}), {cubin.stat().st_size} bytes, "
              f"{time.perf_counter() - start:.2f} s")  # fmt: skip


def main() -> int:
    args = arguments()
    cache = KernelCache(args.cache)
    subgraphs = [subgraph for subgraph in (*SUBGRAPHS, *IRREGULAR) if args.only in subgraph.name]
    if args.compile_only:
        compile_all(subgraphs, cache)
        return 0
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # three libraries share the GPU's memory
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")  # of each process
    inductor = args.inductor and importlib.util.find_spec("torch") is not None
    prepare_all(subgraphs, args.cache, inductor)
    gbps = copy_gbps()
    rows: list[Row] = []
    for subgraph in subgraphs:
        rows.append(measure(subgraph, cache, gbps, inductor))
        print(json.dumps(rows[-1]), flush=True)
        # After every row: a machine that is taken away leaves what it measured.
        write_rows(args.out, rows)
        page_of(args.out).write_text(table(rows, describe_machine(gbps)))
    print(args.out.with_suffix(".md").read_text())
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
