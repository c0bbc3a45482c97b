"""Which regions are slower than the nodes that they replace: they are given up before the model is written."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tf_stitch.convert.draft import loaded_draft, rewritten
from tf_stitch.convert.inputs import Case
from tf_stitch.convert.kernels import Kernels
from tf_stitch.convert.recording import Recorder
from tf_stitch.convert.rewriting import Rewriting
from tf_stitch.convert.running import Loaded
from tf_stitch.convert.saved_model import Model, Signature
from tf_stitch.convert.targets import own_level
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.jit.shape_family import Shapes
from tf_stitch.native.bindings import UNLIMITED, OpLibrary
from tf_stitch.placement.executable import encode
from tf_stitch.runtime.host_run import HostExecutable

SECONDS = 12.0
"""For timing regions, and as much for timing signatures: of a model of 100 ms a call, some 60 calls."""
MOST_CALLS = 200
SLOWER = 1.0
"""What counts as slower, of a signature: regions that gain nothing are not worth what may go wrong with them."""
PAIRS, MORE_PAIRS = 15, 60
CLOSE = 0.05
"""Ratios that differ by less from 1 are timed by MORE_PAIRS: chance would decide between two conversions."""


def slower_regions(model: Model, rewritings: Sequence[Rewriting], kernels: Kernels, cases: Sequence[Case],
                   signatures: Sequence[Signature], library: OpLibrary, scratch: Path) -> set[int]:
    """Regions whose own nodes were faster, over the shapes that were timed, by the native op's profitability check.
    Equal regions have one verdict, so that chance does not decide between them.

    Raises:
        ConvertError: the draft cannot be loaded.
    """
    keep, words = _words(kernels)
    recorder = Recorder([own for r in rewritings for own in r.fallbacks], words)
    recorder.connect(library)
    library.enable_profitability_check(True, apart=0, share=UNLIMITED)
    try:
        with loaded_draft(model, rewritten(model, rewritings, recorder.first), scratch) as draft:
            _run(draft, recorder, cases, signatures)
    finally:
        library.enable_profitability_check(False)
        library.clear_callbacks()
        del keep
    texts = [anonymous_text(region.graph) for r in rewritings for region in r.regions]
    gained: dict[str, float] = {}
    lost: set[str] = set()
    for (region, _), verdict in recorder.verdicts.items():
        gained[texts[region]] = gained.get(texts[region], 0.0) + verdict.fallback_us - verdict.stitched_us
        lost |= {texts[region]} if verdict.prefers_fallback else set()
    return {region for region, text in enumerate(texts) if text in lost and gained[text] < 0}


def slower_signatures(original: Loaded, model: Model, rewritings: Sequence[Rewriting], kernels: Kernels,
                      cases: Sequence[Case], signatures: Sequence[Signature], library: OpLibrary,
                      scratch: Path) -> tuple[dict[str, float], dict[str, set[int]]]:
    """Signature -> its time relative to the original's, the mean over its first and last case; and which regions ran in
    it. Equal signatures have one time.

    Raises:
        ConvertError: the draft cannot be loaded.
    """
    keep, words = _words(kernels)
    recorder = Recorder([own for r in rewritings for own in r.fallbacks], words)
    recorder.connect(library)
    logs: dict[str, list[float]] = {}
    ran: dict[str, set[int]] = {}
    try:
        with loaded_draft(model, rewritten(model, rewritings, recorder.first), scratch) as draft:
            chosen = list(_first_and_last(cases, signatures))
            for signature, case in chosen:
                recorder.seen.clear()
                draft.run(signature, case.values)
                ran.setdefault(signature.name, set()).update(recorder.seen)
                logs.setdefault(signature.name, []).append(math.log(_relative(
                    original.caller(signature), draft.caller(signature), case.values, SECONDS / len(chosen))))
    finally:
        library.clear_callbacks()
        del keep
    texts = [anonymous_text(region.graph) for r in rewritings for region in r.regions]
    return _of_equals(signatures, logs, {name: sorted(texts[i] for i in regions) for name, regions in ran.items()}), ran


def _of_equals(signatures: Sequence[Signature], logs: Mapping[str, Sequence[float]],
               regions: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Signature -> geometric mean of the times of all that are equal to it.

    Args:
        logs: logarithms of times; regions: texts of those that ran.
    """
    kinds = {s.name: repr(([replace(v, name="", tensor="") for v in (*s.inputs, *s.outputs)], regions[s.name]))
             for s in signatures}
    return {name: math.exp(statistics.fmean(log for other in kinds if kinds[other] == kind for log in logs[other]))
            for name, kind in kinds.items()}


def host_executables(kernels: Kernels) -> dict[tuple[int, Shapes], HostExecutable]:
    """Executables for this machine's CPU."""
    level = max(n for n in kernels.target.levels if n <= own_level())
    return {key: HostExecutable(built.executable, *sorted({kernels.files[n][level] for n in built.library.values()}))
            for key, built in kernels.built.items()}


def _words(kernels: Kernels) -> tuple[list[HostExecutable], Mapping[tuple[int, Shapes], Sequence[int]]]:
    """Executables for this machine's CPU as words, and what keeps their libraries loaded."""
    hosts = host_executables(kernels)
    return list(hosts.values()), {key: encode(host.executable, host.addresses()) for key, host in hosts.items()}


def _run(draft: Loaded, recorder: Recorder, cases: Sequence[Case], signatures: Sequence[Signature]) -> None:
    chosen = list(_first_and_last(cases, signatures))
    for signature, case in chosen:
        end = time.monotonic() + SECONDS / len(chosen)
        call = draft.caller(signature)
        for i in range(MOST_CALLS):
            call(case.values)
            waiting = any((r, s) in recorder.words and (r, s) not in recorder.verdicts
                          for r, shapes in recorder.seen.items() for s in shapes)
            if (i > 30 and not waiting) or time.monotonic() > end:
                break


def _first_and_last(cases: Sequence[Case], signatures: Sequence[Signature]) -> Iterator[tuple[Signature, Case]]:
    for signature in signatures:
        own = [c for c in cases if c.signature == signature.name]
        for case in (own[:1] if len(own) == 1 else [own[0], own[-1]]):
            yield signature, case


def _relative(one: Callable[[Any], Any], other: Callable[[Any], Any], inputs: Any, seconds: float) -> float:
    """Median of the second's times relative to the first's, in pairs that change their order."""
    end, ratios = time.monotonic() + seconds, list[float]()
    for i in range(MORE_PAIRS + 2):
        first, second = (one, other) if i % 2 else (other, one)
        times = {}
        for call in (first, second):
            start = time.perf_counter()
            call(inputs)
            times[call] = time.perf_counter() - start
        if i >= 2:  # the first ones find no memory
            ratios.append(times[other] / times[one])
        if len(ratios) >= PAIRS and abs(statistics.median(ratios) - 1.0) > CLOSE:
            break
        if len(ratios) >= 3 and time.monotonic() > end:
            break
    return statistics.median(ratios)

