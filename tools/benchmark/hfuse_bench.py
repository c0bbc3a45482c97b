"""Measures kernels and pairs of the evaluation of HFuse on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tf_stitch.errors import BuildError
from tf_stitch.hfuse.device import DeviceProfiler, alone, fused_kernel, processor
from tf_stitch.hfuse.search import Candidate, best, search
from tools.benchmark.hfuse_cases import CASES, VARIED
from tools.benchmark.hfuse_cubins import BLOCK, Cubins, Pair

TARGET_MS, CRYPTO_TARGET_MS = 0.4, 4.0
"""What each kernel is to take by itself: of deep learning, of mining."""

Row = dict[str, Any]


class Bench:
    """The kernels, and what they are given."""

    def __init__(self, cubins: Cubins, amounts: dict[str, int] | None = None) -> None:
        self.cubins = cubins
        self.amounts = amounts or {name: case.amount for name, case in CASES.items()}
        self._made: dict[str, list[Any]] = {}

    def made(self, name: str, scale: float = 1.0) -> list[Any]:
        """Arguments of a kernel, kept at a scale of 1."""
        if scale != 1:
            return CASES[name].make(max(1, round(self.amounts[name] * scale)))
        if name not in self._made:
            self._made[name] = CASES[name].make(self.amounts[name])
        return self._made[name]

    def profiler(self, pair: Sequence[str], scales: Sequence[float]) -> DeviceProfiler:
        """Of kernels at scales of their inputs."""
        given = [self.made(name, scale) for name, scale in zip(pair, scales, strict=True)]
        return DeviceProfiler([self.cubins.kernels[name] for name in pair], given, self.cubins.module)

    def calibrate(self, name: str) -> None:
        """Sets the amount so that the kernel takes as long as the others."""
        import cupy

        case = CASES[name]
        for _ in range(2):
            ms = self.profiler([name], [1.0]).alone_ms(0, case.native)
            target = TARGET_MS if case.launch.tunable else CRYPTO_TARGET_MS
            self.amounts[name] = max(1, round(self.amounts[name] * target / ms))
            self._made.pop(name, None)
            cupy.get_default_memory_pool().free_all_blocks()

    def alone(self, name: str) -> Row:
        """Row of a kernel by itself."""
        case, profiler = CASES[name], self.profiler([name], [1.0])
        return {
            "amount": self.amounts[name],
            "threads": case.native.threads,
            "blocks": case.native.blocks,
            "ms": profiler.alone_ms(0, case.native),
            "registers": profiler.alone(0, case.native).registers,
        }

    def row(self, pair: Pair, scale: float) -> Row:
        """A pair at one ratio: the search, and what it is compared with."""
        kernels, cases = [self.cubins.kernels[name] for name in pair], [CASES[name] for name in pair]
        varied = VARIED.get(pair, 0)
        profiler = self.profiler(pair, [scale if i == varied else 1.0 for i in (0, 1)])
        native = [case.native for case in cases]
        times = [profiler.alone_ms(i, shape) for i, shape in enumerate(native)]
        launches = [case.launch for case in cases]
        found = search(kernels, launches, BLOCK, self.cubins.architecture, processor(), profiler)
        vertical, problem = self._vertical(pair, profiler)
        return {
            "pair": list(pair),
            "scale": scale,
            "varied": varied,
            "alone_ms": times,
            "streams_ms": profiler.streams_ms(native),
            "vertical_ms": vertical,
            "vertical_problem": problem,
            **chosen(found),
        }

    def equal(self, pair: Pair, row: Row) -> bool:
        """Whether the fastest fused kernel's results are those of the separate ones in blocks of the same sizes, bit
        for bit."""
        import cupy

        threads = tuple(row["best"]["threads"])
        fused = fused_kernel(self.cubins.fused(pair, threads, row["best"]["resident"]), self.cubins.module)
        results = []
        for together in (True, False):
            given = [CASES[name].make(max(1, self.amounts[name] // 16)) for name in pair]
            if together:
                fused([*given[0], *given[1]])
            else:
                for name, own, arguments in zip(pair, threads, given, strict=True):
                    shape = CASES[name].launch.with_threads(own)
                    alone(self.cubins.kernels[name], shape, self.cubins.module)(arguments)
            results.append(
                [a.reshape(-1).view(cupy.uint8) for own in given for a in own if isinstance(a, cupy.ndarray)]
            )
        return all(bool((a == b).all()) for a, b in zip(*results, strict=True))

    def _vertical(self, pair: Pair, profiler: DeviceProfiler) -> tuple[float | None, str]:
        """Milliseconds, or why there are none."""
        try:
            return profiler.fused(self.cubins.vertical(pair)).ms, ""
        except BuildError as error:
            return None, error.message


def chosen(found: Sequence[Candidate]) -> Row:
    """What a search tried, and the best of it: of all, without and with a bound, and in halves, which is Fig. 7's naive
    one.

    Raises:
        BuildError: nothing can be run.
    """
    free, bounded = ([c for c in found if (c.bound is None) is without and c.profile] for without in (True, False))
    even = next((c.profile.ms for c in free if c.threads[0] == c.threads[1] and c.profile), None)
    return {
        "even_ms": even,
        "best": tried(best(found)),
        "free": tried(best(free)) if free else None,
        "bounded": tried(best(bounded)) if bounded else None,
        "tried": [tried(c) for c in found],
    }


def tried(candidate: Candidate) -> Row:
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
