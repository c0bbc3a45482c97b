"""The same call gives the same result, and the same program the same results, while regions are timed against the
TensorFlow ops that they replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import PROGRAMS, Run, Runner
from tf_stitch.atomic_file import read_verified

TRAIN = PROGRAMS / "train_bits.py"
STEPS = 150
SAME_CALL = PROGRAMS / "distinct_results.py"
TIMED = PROGRAMS / "timed_at_once.py"


def result(done: Run) -> Any:
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def settled(done: Run) -> list[tuple[int, str]]:
    assert done.report is not None
    return [(entry["region"], entry["chosen"]) for entry in done.report["profitability"]]


def test_the_form_changes_once_and_then_never(forked: Runner, cache: Path) -> None:
    first = forked(TIMED, SAME_CALL, 6, TF_STITCH_CACHE=str(cache), TF_STITCH_VERBOSE="1")
    assert first.report is not None
    [entry] = first.report["profitability"]
    assert not entry["recalled"]
    gave_way = entry["chosen"] == "fallback"
    assert result(first)["changes"] == gave_way
    assert result(first)["results"] == 1 + gave_way
    assert ("TensorFlow's own ops run from now on" in first.said()) == gave_way
    [region] = first.report["regions"]
    series = [6 * n for n in range(1, 7)]  # one to warm up, and five pairs; three where all say the same
    assert region["shadow_runs"] in (series[-1:] if gave_way else [4, *series])
    assert region["runs"] + region["preferred_fallback_runs"] == result(first)["calls"]

    second = forked(SAME_CALL, 2, TF_STITCH_CACHE=str(cache))
    assert second.report is not None
    [recalled] = second.report["profitability"]
    assert recalled == entry | {"recalled": True}
    assert result(second)["results"] == 1
    assert second.report["regions"][0]["shadow_runs"] == 0


def test_a_damaged_verdict_is_measured_anew(forked: Runner, cache: Path) -> None:
    assert settled(forked(TIMED, SAME_CALL, 6, TF_STITCH_CACHE=str(cache)))
    [verdict] = (cache / "verdicts").iterdir()
    verdict.write_bytes(b"\xff{")
    second = forked(TIMED, SAME_CALL, 6, TF_STITCH_CACHE=str(cache))
    assert second.report is not None
    [entry] = second.report["profitability"]
    assert not entry["recalled"]
    assert verdict.name in second.reasons()
    assert json.loads(read_verified(verdict))["prefers_fallback"] == (entry["chosen"] == "fallback")
    for path in cache.rglob("*"):
        if path.is_file() and path.suffix != ".lock":
            read_verified(path)  # each file of the cache has a digest


def test_a_warm_cache_makes_programs_repeatable(forked: Runner, cache: Path) -> None:
    cold = forked(TIMED, TRAIN, 20 * STEPS, TF_STITCH_CACHE=str(cache))
    assert settled(cold)
    warm = [forked(TRAIN, STEPS, TF_STITCH_CACHE=str(cache)) for _ in range(2)]
    assert settled(warm[0]) == settled(warm[1])
    assert result(warm[0]) == result(warm[1])


@pytest.mark.parametrize(("arguments", "check"), [((), "0"), (("deterministic",), "1")])
def test_programs_that_measure_nothing_are_repeatable(forked: Runner, tmp_path: Path, native_folder: Path,
                                                      arguments: tuple[str, ...], check: str) -> None:
    results = []
    for name in ("a", "b"):
        cache = tmp_path / name
        cache.mkdir()
        (cache / "native").symlink_to(native_folder)
        done = forked(TRAIN, STEPS, *arguments, TF_STITCH_CACHE=str(cache), TF_STITCH_GUARD=check)
        assert settled(done) == []
        results.append(result(done))
    assert results[0] == results[1]
