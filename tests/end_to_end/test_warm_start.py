"""What a process finds that an earlier one left: plans and kernels, whole or damaged."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.conftest import SMALL, Runner, check


def test_the_second_process_neither_plans_nor_compiles(forked: Runner, expected: list[float], cache: Path) -> None:
    first, second = (forked(SMALL, TF_STITCH_CACHE=str(cache)) for _ in range(2))
    for done in (first, second):
        check(done, expected)
        assert done.reasons() == ""
    assert first.report is not None
    assert second.report is not None
    assert first.report["caches"]["plans"]["misses"] == len(list((cache / "plans").glob("*.plan"))) > 0
    for counts in second.report["caches"].values():
        assert counts["hits"] > 0
        assert (counts["misses"], counts["corrupt"]) == (0, 0)
    assert [k["symbol"] for k in second.report["kernels"]] == [k["symbol"] for k in first.report["kernels"]]


def test_damaged_plans_are_made_anew_and_counted(forked: Runner, expected: list[float], cache: Path) -> None:
    check(forked(SMALL, TF_STITCH_CACHE=str(cache)), expected)
    plans = list((cache / "plans").glob("*.plan"))
    for path in plans:
        path.write_bytes(path.read_bytes()[:-1])
    done = forked(SMALL, TF_STITCH_CACHE=str(cache))
    check(done, expected)
    assert done.report is not None
    assert done.report["caches"]["plans"]["corrupt"] == len(plans)


def test_a_region_in_python_is_reported_once_for_its_shapes(forked: Runner, expected: list[float]) -> None:
    done = forked(SMALL, TF_STITCH_WRAP="py_function")
    check(done, expected)
    assert done.report is not None
    assert done.report["builds"]
    assert len({(b["region"], str(b["shapes"])) for b in done.report["builds"]}) == len(done.report["builds"])
    assert all(region["executables"] <= 1 for region in done.report["regions"])
