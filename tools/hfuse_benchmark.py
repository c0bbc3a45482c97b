"""HFuse's evaluation: nine kernels, sixteen pairs, fused side by side, one behind the other, and apart in two streams.

    python -m tools.hfuse_benchmark --precompile_only     compiles all that is run; needs no GPU
    python -m tools.hfuse_benchmark --seconds=130         where a GPU and CuPy are, and ncu for the counters

Writes benchmarks/hfuse.md and its rows as they come: all pairs at inputs of equal time (Figs. 8 and 9), then at other
ratios of the kernels' times (Fig. 7), one ratio of all pairs after the other, then counters. What fails, and what there
is no time for, is a row with its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from operator import setitem
from pathlib import Path
from typing import Any

from tf_stitch.hfuse.device import DeviceKernel, code_of, fused_kernel, warm_up
from tools.benchmark.hfuse_bench import Bench, Row
from tools.benchmark.hfuse_cases import CASES, PAIRS
from tools.benchmark.hfuse_cubins import Cubins
from tools.benchmark.hfuse_page import page
from tools.benchmark.machine import describe_cuda
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, write_rows
from tools.profiling.counters import ProfilerError
from tools.profiling.stalls import profile_stalls

SCALES = (2.0, 0.5, 4.0, 0.25)
"""Of the input of one kernel of a pair, beside 1: the points of Fig. 7."""
COUNTED_SECONDS = 40
"""Kept for counters."""
GRACE = 15
"""Seconds after the last minute: a device that has not answered by then never will."""
CACHE = Path("~/.cache/tf_stitch/hfuse_benchmark")
ANY_ARCHITECTURE = "90"
"""Compiled for where there is no GPU to ask."""


def main() -> int:
    args = arguments()
    if args.precompile_only:
        return precompile(args)
    cubins = Cubins(args.cache, architecture())
    if args.launch:
        launch(cubins, json.loads(args.launch.read_text()))
        return 0
    evaluation = Evaluation(args.out, args.seconds, {"command": command_line(sys.argv), "machine": describe_cuda()})
    watchdog = threading.Timer(args.seconds + GRACE, evaluation.give_up)
    watchdog.daemon = True
    watchdog.start()
    evaluation.attempt("compiling", lambda: evaluation.leave_out(cubins.compile_all()))
    warm_up()
    bench = Bench(cubins)
    counted = args.counted if shutil.which("ncu") else 0
    evaluate(evaluation, bench, counted)
    evaluation.attempt("counters", lambda: count(bench, args.cache, evaluation))
    watchdog.cancel()
    evaluation.write()
    print(page(evaluation.document))
    return 1 if evaluation.document["left_out"] else 0


def precompile(args: argparse.Namespace) -> int:
    """All that can be compiled before."""
    begin = time.monotonic()
    problems = Cubins(args.cache, args.architecture or architecture()).compile_all()
    for name, reason in problems.items():
        print(f"{name}: {reason}")
    print(f"{time.monotonic() - begin:.0f} s")
    return 1 if problems else 0


class Evaluation:
    """The rows, on disk as they come, and the time that there is."""

    def __init__(self, out: Path, seconds: float, head: Row) -> None:
        self.document: Row = {**head, "kernels": {}, "pairs": [], "ratios": [], "left_out": []}
        self._out, self._stop = out, time.monotonic() + seconds

    def left(self) -> float:
        """Seconds."""
        return self._stop - time.monotonic()

    def attempt(
        self, what: str, call: Callable[[], Any], keep: Callable[[Any], object] = lambda _: None, kept: float = 0
    ) -> bool:
        """Whether `call` returned. Of one that fails, or for which there is no time, the rows say why.

        Args:
            keep: puts what `call` returns into the rows.
            kept: seconds that what comes later needs.
        """
        missing = len(self.document["left_out"])
        if self.left() < kept:
            self.document["left_out"].append({"what": what, "reason": "no time was left"})
        else:
            try:
                keep(call())
            except Exception as error:  # a row of its own, whatever it is
                self.document["left_out"].append({"what": what, "reason": f"{type(error).__name__}: {error}"})
        self.write()
        return len(self.document["left_out"]) == missing

    def leave_out(self, problems: dict[str, str]) -> None:
        """Notes what cannot be."""
        self.document["left_out"] += [{"what": what, "reason": reason} for what, reason in problems.items()]

    def write(self) -> None:
        """The rows and the page, as far as they have come."""
        write_rows(self._out, self.document)
        page_of(self._out).write_text(page(self.document))

    def give_up(self) -> None:
        """Ends the process: the device does not answer, and a call that waits for it cannot be ended otherwise."""
        self.document["left_out"].append({"what": "all that follows", "reason": "the device did not answer"})
        self.write()
        os._exit(2)


def evaluate(evaluation: Evaluation, bench: Bench, counted: float) -> None:
    """Kernels, pairs and ratios.

    Args:
        counted: seconds kept for counters.
    """
    document = evaluation.document
    for name in CASES:
        evaluation.attempt(f"{name}, its input", partial(bench.calibrate, name))
    for name in CASES:
        evaluation.attempt(name, partial(bench.alone, name), partial(setitem, document["kernels"], name))
    for pair in PAIRS:
        title = "+".join(pair)
        if evaluation.attempt(title, partial(bench.row, pair, 1.0), document["pairs"].append):
            row = document["pairs"][-1]
            evaluation.attempt(f"{title}, its results", partial(bench.equal, pair, row), partial(setitem, row, "equal"))
    for scale in SCALES:
        for pair in PAIRS:
            what = f"{'+'.join(pair)}, {scale} of the input"
            evaluation.attempt(what, partial(bench.row, pair, scale), document["ratios"].append, kept=counted)


def count(bench: Bench, cache: Path, evaluation: Evaluation) -> None:
    """Counters of every kernel and of each pair's fastest fused kernels: they go into their rows.

    Raises:
        ProfilerError: of none.
    """
    document = evaluation.document
    jobs: list[Row] = [{"kernel": name} for name in document["kernels"]]
    rows: list[Row] = list(document["kernels"].values())
    for row in document["pairs"]:
        for chosen in filter(None, (row["free"], row["bounded"])):
            jobs.append({"pair": row["pair"], **{key: chosen[key] for key in ("threads", "resident")}})
            rows.append(chosen)
    seconds = evaluation.left()
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        plan.write_text(json.dumps({"amounts": bench.amounts, "jobs": jobs, "seconds": 0.7 * seconds}))
        command = [sys.executable, "-m", "tools.hfuse_benchmark", f"--launch={plan}", f"--cache={cache}"]
        counted = profile_stalls(command, Path(folder) / "ncu.csv", seconds)
    for row, found in zip(rows, counted, strict=False):
        row["counters"] = found
    if len(counted) != len(rows):
        raise ProfilerError(f"{len(counted)} launches were counted, of {len(rows)}")


def launch(cubins: Cubins, plan: Row) -> None:
    """What runs under ncu: each kernel once, between cudaProfilerStart and Stop, until the time is up."""
    import cupy

    stop = time.monotonic() + plan["seconds"]
    bench = Bench(cubins, plan["amounts"])
    for job in plan["jobs"]:
        if time.monotonic() > stop:
            break
        names = job.get("pair") or [job["kernel"]]
        given = [value for name in names for value in bench.made(name)]
        if "pair" in job:
            fused = cubins.fused(tuple(names), tuple(job["threads"]), job["resident"])
            kernel = fused_kernel(fused, cubins.module)
        else:
            code, shape = code_of(cubins.kernels[names[0]]), CASES[names[0]].native
            kernel = DeviceKernel(code, shape.grid, shape.block, shape.dynamic_bytes, cubins.module)
        cupy.cuda.Device().synchronize()
        cupy.cuda.runtime.profilerStart()
        kernel(given)
        cupy.cuda.Device().synchronize()
        cupy.cuda.runtime.profilerStop()


def architecture() -> str:
    """Compute capability of the GPU, or what is compiled for without one."""
    import cupy

    try:
        return str(cupy.cuda.Device().compute_capability)
    except cupy.cuda.runtime.CUDARuntimeError:
        return ANY_ARCHITECTURE


def arguments() -> argparse.Namespace:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--seconds", type=float, default=130, help="limit of all together")
    flags.add_argument("--counted", type=float, default=COUNTED_SECONDS, help="of these kept for counters")
    flags.add_argument("--precompile_only", action="store_true", help="compile what will be run, and nothing else")
    flags.add_argument("--architecture", help="compile for it, not for the GPU that is here")
    flags.add_argument("--cache", type=Path, default=CACHE, help="folder of what was compiled")
    flags.add_argument("--launch", type=Path, help=argparse.SUPPRESS)  # what runs under ncu
    flags.add_argument("--out", type=Path, default=raw_rows("hfuse"))
    return flags.parse_args()


if __name__ == "__main__":
    sys.exit(main())
