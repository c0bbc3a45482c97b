"""Which of a region's two forms is faster, its kernels or its fallback subgraph: the native op measures, here verdicts
are kept, recalled and reported.

Verdicts are about a structure and its shapes: regions of one structure share them in a process, and later processes on
the same machine, with the same versions, begin with them. A process that found all its kernels in the cache is to
be repeated by later ones bit for bit: a verdict that it reaches takes effect at a call whose number is kept with the
verdict, and no earlier in later processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
from tf_stitch.report.verdict import LEAST_PAIRS
from tf_stitch.runtime.cache_key import cache_key, package_digest
from tf_stitch.runtime.device_profiles import machine_key

_FIRST_LOOK = 64
"""As native/op/profitability_check.cc has it."""


def change_over(call: int) -> int:
    """The call at which what was measured before call number `call` takes effect, in this process as in later ones: a
    power of two, before which equal regions look for it, and that none which is called as often has passed."""
    return 1 << max(_FIRST_LOOK, call + 2).bit_length()


class ProfitabilityCheck:
    """What the native op calls, on any thread, see OpLibrary.set_callbacks.

    Args:
        where: names a region in messages.
        gave_way: is told from which call on a region runs TensorFlow's ops, and whether that was known.
        surroundings: what else of the process a verdict depends on, such as TensorFlow's version and threads.
    """

    def __init__(self, config: StitchConfig, registry: RegionRegistry, report: Report, where: Callable[[int], str],
                 surroundings: Callable[[], tuple[str, ...]],
                 gave_way: Callable[[int, bool], None] = lambda from_call, known: None) -> None:
        self._config, self._registry, self._report, self._where = config, registry, report, where
        self._surroundings, self._gave_way = surroundings, gave_way
        self._store = VerdictStore(config.cache_dir / "verdicts")
        self._settled = set[str]()  # by this process

    def recall(self, region: int, device: int, key: tuple[int, ...]) -> Verdict | None:
        """Which form runs; None: nobody knows yet."""
        if self._config.memory is not None:
            self.not_timed(region, "TF_STITCH_MEMORY limits what the kernels take, not what TensorFlow's ops do")
            return Verdict(False, 0.0, 0.0)
        name = self._key(region, device, key)
        known = self._known(name)
        if known is None or self._is_measured_again(name, known):
            return self._unmeasured(region, device, key)
        self._add(region, device, key, known, recalled=True)
        if known.prefers_fallback:
            self._gave_way(known.from_call, True)
        return known

    def _unmeasured(self, region: int, device: int, key: tuple[int, ...]) -> Verdict | None:
        """Kernels that stay since TensorFlow's ops take too much memory to be timed; None: they may be timed."""
        why = self._registry.memory.why_not((region, device, Key.parse(key)))
        if not why:
            return None
        self.not_timed(region, why)
        return Verdict(False, 0.0, 0.0)

    def settle(self, region: int, device: int, key: tuple[int, ...], measured: Verdict, call: int) -> Verdict:
        """As `recall`, of a region that was measured before call number `call`: an equal region's verdict, if there is
        one already."""
        name = self._key(region, device, key)
        known = self._known(name)
        earlier = known if known is not None and self._is_measured_again(name, known) else None
        if earlier is not None:
            known, measured = None, _together(earlier, measured)
        verdict = known or replace(measured, from_call=0 if self._built_anything else change_over(call))
        if known is None:
            self._settled.add(name)
            try:
                self._store.keep(name, verdict)
            except OSError as error:
                self._report.note("profitability", str(self._store.folder), f"no verdict can be kept: {error}")
        self._add(region, device, key, verdict, recalled=known is not None)
        if verdict.prefers_fallback:
            self._gave_way(max(call, verdict.from_call), known is not None)
        if verdict.prefers_fallback and self._config.verbose:
            when = f"from its call {verdict.from_call} on" if verdict.from_call > call else "from now on"
            say(f"{self._where(region)}: TensorFlow's own ops run {when}: they take "
                  f"{verdict.fallback_us:.1f} us, the kernels {verdict.stitched_us:.1f} us")
        return verdict

    def _is_measured_again(self, name: str, known: Verdict) -> bool:
        """Whether a verdict of an earlier process rests on too few pairs. Its form, the kernels, runs meanwhile."""
        return not known.prefers_fallback and known.pairs < LEAST_PAIRS and name not in self._settled

    @property
    def _built_anything(self) -> bool:
        """Whether this process lacked kernels in the cache: then no other computes what it does, step for step, and
        its verdicts hold from the first call of those on."""
        return self._registry.cache.counts()["misses"] > 0

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
                                    "fallback" if verdict.prefers_fallback else "stitched", recalled, verdict.pairs))

    def _key(self, region: int, device: int, words: tuple[int, ...]) -> str:
        """What a verdict depends on, as hex digits: kernels of a CPU are the same for aligned buffers and others."""
        on_gpu = device != CPU_ORDINAL
        key, config = Key.parse(words), self._config
        try:
            machine = machine_key("cuda" if on_gpu else "cpu", max(device, 0))
        except BuildError:
            machine = "unknown"
        circumstances = (repr(key.shapes), repr((key.aligned, key.tf32) if on_gpu else ()), config.planner,
                         repr((config.reuse, config.templates, config.fuel, config.memory)),
                         *self._surroundings())
        return cache_key(self._registry.structure(region), "verdict", machine, circumstances, "", package_digest())


def _together(earlier: Verdict, measured: Verdict) -> Verdict:
    """What two processes have measured: what disturbs a measurement makes it longer."""
    return replace(measured, stitched_us=min(earlier.stitched_us, measured.stitched_us),
                   fallback_us=min(earlier.fallback_us, measured.fallback_us), pairs=earlier.pairs + measured.pairs)
