"""Times matmuls with what is around them on a GPU: cuBLASLt with its epilogues and kernels beside it, as tf_stitch
plans them, against one kernel of ours (families/matmul.py) by each of its tiles, in turns, as StitchOps in CUDA graphs.

    python -m tools.stitched_matmuls
    python -m tools.stitched_matmuls --only=gate --seconds=60 --out=/tmp/try.md
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from absl import app, flags

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.config import ForcedTemplate
from tf_stitch.device.spec import H200
from tf_stitch.errors import StitchError
from tf_stitch.families.matmul import MATMUL
from tf_stitch.families.matmul_tiles import tiles_of
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.ir.graph import key_of
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.planning.matmul_choice import Stitching
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.templates import parse_template
from tools.benchmark.machine import describe_cpu, describe_gpu
from tools.benchmark.raw_rows import command_line
from tools.benchmark.region_runner import WARM_UP, RegionRunner
from tools.benchmark.stitched_cases import CASES, StitchedCase

_ONLY = flags.DEFINE_string("only", "", "cases whose name has this")
_SECONDS = flags.DEFINE_float("seconds", 600, "what is built after so many is not measured")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "turns of which the median is taken")
_JOBS = flags.DEFINE_integer("jobs", 12, "cases that are built at once")
_OUT = flags.DEFINE_string("out", "stitched_matmuls.md", "the table")
REPEATS = 200
"""Of a region's steps in a call: what is measured is not a call from the host."""
HEAD = ("| case | library us | kernels | stitched us | tile | ratio | TFLOP/s | predicted us | NVRTC s | error | "
        "chosen | its ratio |\n" + "| --- " * 12 + "|")


@dataclass(frozen=True)
class Variant:
    """One way to compute a case. `tile`: of ours, "" for the library's, "chosen" for what is predicted to be faster."""

    tile: str
    region: CompiledRegion


def variants(case: StitchedCase) -> list[Variant]:
    """The library's first, then what a plan chooses, then those of all tiles."""
    stitched = compiled(case, Stitching.ALL)
    shape, _ = next(kernel.schedule.matmul for kernel in stitched.kernels if kernel.schedule.matmul is not None)
    tiles = [f"{rows}x{columns}" for rows, columns in tiles_of(shape, H200)]
    return [Variant("", compiled(case, Stitching.NONE)), Variant("chosen", compiled(case, Stitching.PREDICTED)),
            *(Variant(tile, compiled(case, Stitching.ALL, tile)) for tile in tiles)]


def compiled(case: StitchedCase, stitching: Stitching, tile: str = "") -> CompiledRegion:
    graph = case.graph()
    forced: tuple[ForcedTemplate, ...] = ()
    if tile:
        rows, columns = tile.split("x")
        forced = (ForcedTemplate("*", parse_template(f"*[GRID-CTA_{rows},GRID-CTA_{columns}];")),)
    return compile_region(graph, *arguments_of(graph), CompileOptions(
        H200, PlanOptions(matmuls=stitching), templates=TemplateChoice(H200, True, forced)))


def built(case: StitchedCase, runner: RegionRunner) -> tuple[list[Variant], list[float]]:
    """Its variants, and the seconds that each took to build."""
    found = variants(case)
    return found, [runner.build(variant.region) for variant in found]


def measured(case: StitchedCase, runner: RegionRunner, found: Sequence[Variant], seconds: Sequence[float]) -> str:
    """A row of the table."""
    inputs = _inputs(case)
    numbers = [runner.add(variant.region, REPEATS) for variant in found]
    [(_, out)] = case.graph().outputs
    call = partial(runner.call, inputs=inputs, dtype=out.type.dtype.value)
    results = [np.asarray(tf.cast(call(number)[1], tf.float64)) for number in numbers]
    for _ in range(WARM_UP):
        for number in numbers:
            call(number)
    times: list[list[float]] = [[] for _ in found]
    for turn in range(_ROUNDS.value):
        order = list(range(len(found)))
        for i in order[turn % len(order):] + order[:turn % len(order)]:
            times[i].append(call(numbers[i])[0] / REPEATS * 1e6)
    us = [statistics.median(one) for one in times]
    best = min(range(2, len(found)), key=lambda i: us[i])
    chosen = any(kernel.schedule.matmul for kernel in found[1].region.kernels)
    error = max(np.abs(results[i] - results[0]).max() for i in range(1, len(found))) / np.abs(results[0]).max()
    flops = 2 * case.m * case.k * case.n / us[best] * 1e-6
    kernels = [k for k in found[best].region.kernels if k.schedule.family == MATMUL.name]
    predicted = sum(predict_us(kernel.program, H200) for kernel in kernels)
    print("   ", *(f"{v.tile or 'library'} {t:.2f}" for v, t in zip(found, us, strict=True)), flush=True)
    return (f"| {case.name} | {us[0]:.2f} | {len(found[0].region.executable.steps)} > "
            f"{len(found[best].region.executable.steps)} | {us[best]:.2f} | {found[best].tile} | "
            f"{us[best] / us[0]:.3f} | {flops:.0f} | {predicted:.2f} | {seconds[best]:.2f} | {error:.1e} | "
            f"{'yes' if chosen else 'no'} | {us[1] / us[0]:.3f} |")


def _inputs(case: StitchedCase) -> list[Any]:
    random, found = np.random.default_rng(0), []
    nodes = {key_of(node): node for node in case.graph().inputs()}
    for key in arguments_of(case.graph())[0]:
        t = nodes[key].type
        if t.dtype.value == "bool":
            found.append(tf.constant(random.random(t.dims) < 0.8))
        else:
            scale = t.dims[-2] ** -0.5 if key == "w" else 1.0
            found.append(tf.cast(tf.constant(random.standard_normal(t.dims) * scale), t.dtype.value))
    with tf.device("/gpu:0"):
        return [tf.identity(x) for x in found]


def rows(wanted: Sequence[StitchedCase], runner: RegionRunner) -> Iterator[str]:
    """Nothing is timed while something is built."""
    pool, start = ThreadPoolExecutor(_JOBS.value), time.perf_counter()
    futures = [pool.submit(built, case, runner) for case in wanted]
    wait(futures, _SECONDS.value)
    pool.shutdown(cancel_futures=True)
    print(f"built in {time.perf_counter() - start:.0f} s", flush=True)
    for case, future in zip(wanted, futures, strict=True):
        if future.cancelled():
            continue
        try:
            yield measured(case, runner, *future.result())
        except (StitchError, RuntimeError, tf.errors.OpError) as error:
            yield f"| {case.name} | failed: {str(error)[:200]} |"


def heading(machine: Mapping[str, Any], command: str) -> list[str]:
    """Lines before the rows."""
    return ["# Matmuls with what is around them: a library's calls and kernels, or one kernel of ours", "",
            ", ".join(f"{key} {value}" for key, value in machine.items()) + ".", "", f"Made by `{command}`.", "",
            f"Library: cuBLASLt with its epilogues, and the kernels that are left; stitched: the fastest tile of one "
            f"kernel. Microseconds of a step of {REPEATS} in one CUDA graph, medians of turns. Ratio: stitched over "
            "library, below 1 where the kernel of ours is faster. Chosen: whether it is predicted to be faster; its "
            "ratio: what the plan then takes over the library's.", "", HEAD]


def main(_: Sequence[str]) -> None:
    runner = RegionRunner("/gpu:0", H200)
    lines = heading(describe_gpu() | describe_cpu(), command_line(sys.argv))
    print(HEAD, flush=True)
    for row in rows([case for case in CASES if _ONLY.value in case.name], runner):
        print(row, flush=True)
        lines.append(row)
        Path(_OUT.value).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    app.run(main)
