# ruff: noqa: E501
"""HFuse's evaluation: nine kernels, sixteen pairs, fused side by side, one behind the other, and apart in two streams.

    python -m tools.hfuse_benchmark --seconds=200     where a GPU and CuPy are, and ncu for the counters

Writes benchmarks/hfuse.md and its rows as they come: all pairs at inputs of equal time, then counters (Figs. 8 and 9),
then the pairs again at other ratios of the kernels' times (Fig. 7), as far as the time goes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tf_stitch.errors import BuildError
from tf_stitch.hfuse.device import Code, DeviceKernel, DeviceProfiler, code_of, fused_kernel, processor, warm_up
from tf_stitch.hfuse.fuse import Fused, fuse
from tf_stitch.hfuse.search import Candidate, Profile, best, partitions, register_bound, resident_blocks, search
from tf_stitch.hfuse.source import Kernel
from tools.benchmark.hfuse_cases import CASES, PAIRS, VARIED
from tools.benchmark.hfuse_page import page
from tools.benchmark.machine import describe_cuda
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, write_rows
from tools.profiling.counters import ProfilerError
from tools.profiling.stalls import profile_stalls

BLOCK = 1024
"""Threads of a fused block, where they may be chosen."""
TARGET_MS, CRYPTO_TARGET_MS = 0.4, 4.0
"""What each kernel is to take by itself: of deep learning, of mining."""
SCALES = (0.25, 0.5, 2.0, 4.0)
"""Of the input of one kernel of a pair, beside 1: the points of Fig. 7."""
WORKERS = 14
COUNTED_SECONDS = 50
"""Kept for counters."""

Pair = tuple[str, str]


def main() -> int:
    args = arguments()
    if args.launch:
        launch(json.loads(Path(args.launch).read_text()))
        return 0
    stop = time.monotonic() + args.seconds
    document: dict[str, Any] = {
        "command": command_line(sys.argv),
        "machine": describe_cuda(),
        "kernels": {},
        "pairs": [],
        "ratios": [],
        "left_out": [],
    }
    bench = Bench()
    precompile(bench)
    warm_up()
    bench.calibrate()
    document["kernels"] = bench.alone()
    for pair in PAIRS:
        if time.monotonic() > stop - args.counted:
            document["left_out"].append(f"{'+'.join(pair)}: no time was left")
            continue
        with bench.noting(document, pair):
            document["pairs"].append(bench.row(pair, 1.0, check=True))
        write(args.out, document)
    if args.counted:
        count(bench, document, min(args.counted, stop - time.monotonic()))
        write(args.out, document)
    for pair in PAIRS:
        for scale in SCALES:
            if time.monotonic() < stop:
                with bench.noting(document, pair):
                    document["ratios"].append(bench.row(pair, scale))
        write(args.out, document)
    missing = len(PAIRS) * len(SCALES) - len(document["ratios"])
    if missing:
        document["left_out"].append(f"{missing} of {len(PAIRS) * len(SCALES)} points at other ratios")
    write(args.out, document)
    print(page(document))
    return 1 if document["left_out"] else 0


class Bench:
    """The kernels, parsed, and what they are given."""

    def __init__(self) -> None:
        import cupy

        self.architecture = cupy.cuda.Device().compute_capability
        self.kernels: dict[str, Kernel] = {name: case.kernel(self.architecture) for name, case in CASES.items()}
        self.amounts = {name: case.amount for name, case in CASES.items()}
        self._made: dict[tuple[str, int], list[Any]] = {}

    def made(self, name: str, scale: float = 1.0) -> list[Any]:
        """Arguments of a kernel, kept at a scale of 1."""
        amount = max(1, round(self.amounts[name] * scale))
        if (name, amount) not in self._made:
            made = CASES[name].make(amount)
            if scale != 1:
                return made
            self._made[name, amount] = made
        return self._made[name, amount]

    def profiler(self, pair: Sequence[str], scales: Sequence[float]) -> DeviceProfiler:
        """Of kernels at scales of their inputs."""
        given = [self.made(name, scale) for name, scale in zip(pair, scales, strict=True)]
        return DeviceProfiler([self.kernels[name] for name in pair], given)

    def calibrate(self) -> None:
        """Sets the amounts so that all kernels take about the same time."""
        import cupy

        for name, case in CASES.items():
            for _ in range(2):
                ms = self.profiler([name], [1.0]).alone_ms(0, case.native)
                target = TARGET_MS if case.launch.tunable else CRYPTO_TARGET_MS
                self.amounts[name] = max(1, round(self.amounts[name] * target / ms))
                self._made.clear()
                cupy.get_default_memory_pool().free_all_blocks()

    def alone(self) -> dict[str, Any]:
        """Rows of the kernels by themselves."""
        rows = {}
        for name, case in CASES.items():
            profiler = self.profiler([name], [1.0])
            facts = profiler.alone(0, case.native)
            rows[name] = {
                "amount": self.amounts[name],
                "threads": case.native.threads,
                "blocks": case.native.blocks,
                "ms": profiler.alone_ms(0, case.native),
                "registers": facts.registers,
            }
        return rows

    def row(self, pair: Pair, scale: float, check: bool = False) -> dict[str, Any]:
        """A pair at one ratio: the search, and what it is compared with."""
        kernels, cases = [self.kernels[name] for name in pair], [CASES[name] for name in pair]
        varied = VARIED.get(pair, 0)
        profiler = self.profiler(pair, [scale if i == varied else 1.0 for i in (0, 1)])
        native = [case.native for case in cases]
        alone = [profiler.alone_ms(i, shape) for i, shape in enumerate(native)]
        found = search(kernels, [case.launch for case in cases], BLOCK, self.architecture, processor(), profiler)
        chosen = best(found)
        free = [c for c in found if c.bound is None]
        row = {
            "pair": list(pair),
            "scale": scale,
            "varied": varied,
            "alone_ms": alone,
            "streams_ms": profiler.streams_ms(native),
            "vertical_ms": _ms(profiler, self.vertical(pair)),
            "even_ms": _even(free),
            "free": tried(best(free)),
            "best": tried(chosen),
            "tried": [tried(c) for c in found],
        }
        bounded = [c for c in found if c.bound is not None and c.profile is not None]
        row["bounded"] = tried(best(bounded)) if bounded else None
        if check:
            row["equal"] = self.equal(pair, chosen)
        return row

    def vertical(self, pair: Pair) -> Fused:
        """Standard fusion: the same threads run both."""
        cases = [CASES[name] for name in pair]
        return fuse([self.kernels[name] for name in pair], [case.native for case in cases], self.architecture, True)

    def equal(self, pair: Pair, chosen: Candidate) -> bool:
        """Whether the fused kernel's results are those of the separate ones in blocks of the same sizes, bit for bit."""
        import cupy

        results = []
        for together in (True, False):
            given = [CASES[name].make(max(1, self.amounts[name] // 16)) for name in pair]
            if together:
                fused_kernel(chosen.fused)([*given[0], *given[1]])
            else:
                profiler = DeviceProfiler([self.kernels[name] for name in pair], given)
                for i, name in enumerate(pair):
                    profiler.compiled(i, CASES[name].launch.with_threads(chosen.threads[i]))(given[i])
            results.append(
                [a.reshape(-1).view(cupy.uint8) for own in given for a in own if isinstance(a, cupy.ndarray)]
            )
        return all(bool((a == b).all()) for a, b in zip(*results, strict=True))

    @contextlib.contextmanager
    def noting(self, document: dict[str, Any], pair: Pair) -> Any:
        """What fails is said in the page."""
        try:
            yield
        except BuildError as error:
            document["left_out"].append(f"{'+'.join(pair)}: {error}")


def _ms(profiler: DeviceProfiler, fused: Fused) -> float:
    return profiler.fused(fused).ms


def _even(free: Sequence[Candidate]) -> float | None:
    """Of the partition in halves, which is Fig. 7's naive one."""
    return next((c.profile.ms for c in free if c.threads[0] == c.threads[1] and c.profile is not None), None)


def tried(candidate: Candidate) -> dict[str, Any]:
    """A configuration, as a row."""
    profile = candidate.profile
    facts = (
        {}
        if profile is None
        else {"ms": profile.ms, "registers": profile.registers, "local_bytes": profile.local_bytes}
    )
    return {
        "threads": list(candidate.threads),
        "bound": candidate.bound,
        "resident": candidate.fused.resident,
        "problem": candidate.problem,
        **facts,
    }


def precompile(bench: Bench) -> None:
    """Compiles what will be run, on all cores: CuPy keeps it on disk. Bounds follow from what was compiled without one."""
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        alone = dict(zip(bench.kernels, pool.map(_compiled, [code_of(k) for k in bench.kernels.values()]), strict=True))
        free = [
            (pair, threads, _fused(bench, pair, threads, 1))
            for pair in PAIRS
            for threads in partitions([CASES[name].launch for name in pair], BLOCK)
        ]
        vertical = [bench.vertical(pair) for pair in PAIRS]
        sources = [fused for _, _, fused in free] + vertical
        compiled = list(pool.map(_compiled, [Code(f.source, f.symbol) for f in sources]))
        bounded = []
        for (pair, threads, fused), facts in zip(free, compiled, strict=False):
            if facts is not None and None not in (alone[pair[0]], alone[pair[1]]):
                profiles = [Profile(0.0, *alone[name]) for name in pair]
                resident = resident_blocks(processor(), profiles, threads, facts[1] + fused.dynamic_bytes)
                if resident > 1 and register_bound(processor(), resident, threads):
                    bounded.append(_fused(bench, pair, threads, resident))
        list(pool.map(_compiled, [Code(f.source, f.symbol) for f in bounded]))


def _fused(bench: Bench, pair: Pair, threads: tuple[int, int], resident: int) -> Fused:
    shapes = [CASES[name].launch.with_threads(own) for name, own in zip(pair, threads, strict=True)]
    return fuse([bench.kernels[name] for name in pair], shapes, bench.architecture, resident=resident)


def _compiled(code: Code) -> tuple[int, int, int] | None:
    """Registers, static shared memory and spilled bytes; None of what the compiler refuses, which the search will say."""
    try:
        kernel = DeviceKernel(code, (1, 1, 1), (1, 1, 1), 0)
    except BuildError:
        return None
    return kernel.registers, kernel.shared_bytes, kernel.local_bytes


def count(bench: Bench, document: dict[str, Any], seconds: float) -> None:
    """Counters of every kernel and of each pair's fastest fused kernels: they go into their rows."""
    jobs: list[dict[str, Any]] = [{"kernel": name} for name in document["kernels"]]
    rows: list[dict[str, Any]] = list(document["kernels"].values())
    for row in document["pairs"]:
        for chosen in filter(None, (row["free"], row["bounded"])):
            jobs.append({"pair": row["pair"], **{key: chosen[key] for key in ("threads", "resident")}})
            rows.append(chosen)
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        plan.write_text(json.dumps({"amounts": bench.amounts, "jobs": jobs}))
        command = [sys.executable, "-m", "tools.hfuse_benchmark", f"--launch={plan}"]
        try:
            counted = profile_stalls(command, Path(folder) / "ncu.csv", seconds)
        except ProfilerError as error:
            document["left_out"].append(f"counters: {error}")
            return
    if len(counted) != len(rows):
        document["left_out"].append(f"counters: {len(counted)} launches were counted, of {len(rows)}")
    for row, found in zip(rows, counted, strict=False):
        row["counters"] = found


def launch(plan: dict[str, Any]) -> None:
    """What runs under ncu: each kernel once, between cudaProfilerStart and Stop."""
    import cupy

    bench = Bench()
    bench.amounts = plan["amounts"]
    for job in plan["jobs"]:
        names = job.get("pair") or [job["kernel"]]
        given = [value for name in names for value in bench.made(name)]
        if "pair" in job:
            kernel = fused_kernel(_fused(bench, tuple(names), tuple(job["threads"]), job["resident"]))
        else:
            kernel = DeviceKernel(
                code_of(bench.kernels[names[0]]),
                CASES[names[0]].native.grid,
                CASES[names[0]].native.block,
                CASES[names[0]].native.dynamic_bytes,
            )
        cupy.cuda.Device().synchronize()
        cupy.cuda.runtime.profilerStart()
        kernel(given)
        cupy.cuda.Device().synchronize()
        cupy.cuda.runtime.profilerStop()


def write(out: Path, document: dict[str, Any]) -> None:
    """The rows and the page, as far as they have come."""
    write_rows(out, document)
    page_of(out).write_text(page(document))


def arguments() -> argparse.Namespace:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--seconds", type=float, default=200, help="limit of all together")
    flags.add_argument("--counted", type=float, default=COUNTED_SECONDS, help="of these kept for counters; 0: none")
    flags.add_argument("--launch", help=argparse.SUPPRESS)  # what runs under ncu
    flags.add_argument("--out", type=Path, default=raw_rows("hfuse"))
    return flags.parse_args()


if __name__ == "__main__":
    sys.exit(main())
