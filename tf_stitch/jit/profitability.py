"""Which of a region's two forms is faster, its kernels or its fallback subgraph: the native op measures, here verdicts
are kept, recalled and reported.

Verdicts are about a structure and its shapes: regions of one structure share them in a process, and later processes on
the same machine, with the same versions, begin with them.
"""

from __future__ import annotations

from collections.abc import Callable

from tf_stitch.config import StitchConfig
from tf_stitch.errors import BuildError, DamagedFileError
from tf_stitch.jit.build_key import Key
from tf_stitch.jit.region_builder import CPU_ORDINAL
from tf_stitch.jit.region_registry import RegionRegistry
from tf_stitch.jit.verdict_store import VerdictStore
from tf_stitch.messages import say
from tf_stitch.native.bindings import Verdict
from tf_stitch.report.entries import ProfitabilityEntry
from tf_stitch.report.report import Report
from tf_stitch.runtime.cache_key import cache_key, package_digest
from tf_stitch.runtime.device_profiles import machine_key


class ProfitabilityCheck:
    """What the native op calls, on any thread, see OpLibrary.set_callbacks.

    Args:
        where: names a region in messages.
        surroundings: what else of the process a verdict depends on, such as TensorFlow's version and threads.
    """

    def __init__(self, config: StitchConfig, registry: RegionRegistry, report: Report, where: Callable[[int], str],
                 surroundings: Callable[[], tuple[str, ...]]) -> None:
        self._config, self._registry, self._report, self._where = config, registry, report, where
        self._surroundings = surroundings
        self._store = VerdictStore(config.cache_dir / "verdicts")

    def recall(self, region: int, device: int, key: tuple[int, ...]) -> bool | None:
        """Whether the region's TensorFlow nodes run, not its kernels; None: nobody knows yet."""
        known = self._known(self._key(region, device, key))
        if known is None:
            return None
        self._add(region, device, key, known, recalled=True)
        return known.prefers_fallback

    def settle(self, region: int, device: int, key: tuple[int, ...], measured: Verdict) -> bool:
        """As `recall`, of a region that was measured: an equal region's verdict, if there is one already."""
        name = self._key(region, device, key)
        known = self._known(name)
        verdict = known or measured
        if known is None:
            try:
                self._store.keep(name, measured)
            except OSError as error:
                self._report.note("profitability", str(self._store.folder), f"no verdict can be kept: {error}")
        self._add(region, device, key, verdict, recalled=known is not None)
        if verdict.prefers_fallback and self._config.verbose:
            say(f"{self._where(region)}: TensorFlow's own ops run from now on: they take "
                  f"{verdict.fallback_us:.1f} us, the kernels {verdict.stitched_us:.1f} us")
        return verdict.prefers_fallback

    def not_timed(self, region: int, reason: str) -> None:
        """The region keeps its kernels, unmeasured."""
        self._report.remark("profitability", self._where(region), f"not timed against TensorFlow's ops: {reason}")

    def _known(self, name: str) -> Verdict | None:
        try:
            return self._store.recall(name)
        except (OSError, DamagedFileError) as error:
            self._report.note("profitability", str(self._store.folder), f"{error}; it is measured anew")
            return None

    def _add(self, region: int, device: int, key: tuple[int, ...], verdict: Verdict, recalled: bool) -> None:
        shapes = [list(shape) for shape in Key.parse(key).shapes]
        self._report.add(ProfitabilityEntry(region, "cpu" if device == CPU_ORDINAL else "gpu", shapes,
                                    round(verdict.stitched_us, 3), round(verdict.fallback_us, 3),
                                    "fallback" if verdict.prefers_fallback else "stitched", recalled))

    def _key(self, region: int, device: int, words: tuple[int, ...]) -> str:
        """What a verdict depends on, as hex digits: kernels of a CPU are the same for aligned buffers and others."""
        on_gpu = device != CPU_ORDINAL
        key, config = Key.parse(words), self._config
        try:
            machine = machine_key("cuda" if on_gpu else "cpu", max(device, 0))
        except BuildError:
            machine = "unknown"
        circumstances = (repr(key.shapes), repr((key.aligned, key.tf32) if on_gpu else ()), config.planner,
                         repr((config.reuse, config.templates, config.fuel)),
                         *self._surroundings())
        return cache_key(self._registry.structure(region), "verdict", machine, circumstances, "", package_digest())
