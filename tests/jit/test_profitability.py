"""From which call a measured verdict holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tf_stitch.config import StitchConfig
from tf_stitch.jit.profitability import ProfitabilityCheck, change_over
from tf_stitch.native.bindings import Verdict

MEASURED = Verdict(True, 2.0, 1.0)


def check(folder: Path, misses: int) -> ProfitabilityCheck:
    """Of a process that found so many kernels missing in the cache."""
    registry: Any = MagicMock()
    registry.cache.counts.return_value = {"hits": 1, "misses": misses, "corrupt": 0}
    registry.structure.return_value = "a structure"
    registry.memory.why_not.return_value = ""
    return ProfitabilityCheck(StitchConfig(cache_dir=folder), registry, MagicMock(), str, tuple)


def key() -> tuple[int, ...]:
    return (1, 0)


@pytest.mark.parametrize(("misses", "from_call"), [(0, 512), (3, 0)])
def test_only_a_cold_process_hands_its_verdict_to_the_first_call(tmp_path: Path, misses: int, from_call: int) -> None:
    assert check(tmp_path, misses).settle(0, -1, key(), MEASURED, 412) == Verdict(True, 2.0, 1.0, from_call)
    later = check(tmp_path, misses=0)
    assert later.recall(1, -1, key()) == Verdict(True, 2.0, 1.0, from_call)
    assert later.settle(1, -1, key(), Verdict(False, 1.0, 2.0), 99) == Verdict(True, 2.0, 1.0, from_call)


def test_ops_that_take_too_much_memory_are_not_timed(tmp_path: Path) -> None:
    """Unless a process has timed them before."""
    limited = check(tmp_path, misses=0)
    registry: Any = limited._registry
    registry.memory.why_not.return_value = "they would take 9 MiB, the kernels 1 MiB"
    assert limited.recall(0, -1, key()) == Verdict(False, 0.0, 0.0)
    report: Any = limited._report
    report.remark.assert_called_once_with("profitability", "0", "not timed against TensorFlow's ops: they would take 9 "
                                          "MiB, the kernels 1 MiB")
    limited.settle(0, -1, key(), MEASURED, 412)
    assert limited.recall(0, -1, key()) == Verdict(True, 2.0, 1.0, 512)


def test_who_measures_steps_is_told_what_gives_way(tmp_path: Path) -> None:
    told: list[tuple[int, bool]] = []
    measured = check(tmp_path, misses=0)
    measured._gave_way = lambda *change: told.append(change)
    measured.settle(0, -1, key(), MEASURED, 412)
    measured.recall(1, -1, key())
    measured.settle(2, -1, (1, 1, 3), Verdict(False, 1.0, 2.0, pairs=3), 9)
    assert told == [(512, False), (512, True)]


def test_equal_regions_have_time_to_learn_of_it() -> None:
    for call in range(1, 3000):
        there = change_over(call)
        assert there > call + 2
        assert there <= max(128, 2 * (call + 2))
        assert there & (there - 1) == 0


def test_a_verdict_of_one_pair_is_measured_again(tmp_path: Path) -> None:
    """By later processes, until it rests on three; the outlier among them does not count."""
    name = key()
    for process, fallback_us in enumerate((1_707.0, 1.5, 1.25)):
        later = check(tmp_path, misses=0)
        assert later.recall(0, 0, name) is None
        verdict = later.settle(0, 0, name, Verdict(False, 1.0, fallback_us, pairs=1), 8)
        assert verdict.pairs == process + 1
        assert later.recall(1, 0, name) == verdict, "an equal region of the process is not timed"
    last = check(tmp_path, misses=0).recall(0, 0, name)
    assert last is not None
    assert (last.pairs, last.stitched_us, last.fallback_us) == (3, 1.0, 1.25)
