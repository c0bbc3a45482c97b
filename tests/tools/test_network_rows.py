"""A network counts once, by its newest run in which both ran."""

from __future__ import annotations

import pytest

from tools.benchmark.network_rows import Comparison, geometric_mean, newest, read_csv, titles


def row(commit: str, backend: str, median: str, network: str = "net", first: str = "2") -> dict[str, str]:
    return {"commit": commit, "network": network, "backend": backend, "median_ms": median, "first_call_s": first,
            "steady_peak_mib": ""}


def test_the_newest_run_with_both_backends_counts() -> None:
    rows = [row("a", "xla", "4"), row("a", "tf_stitch", "3"), row("b", "xla", "4"), row("b", "tf_stitch", "2")]
    [found] = newest([*rows, row("c", "tf_stitch", "1")], "xla")
    assert (found.commit, found.speedup("xla")) == ("b", 2.0)


def test_a_backend_that_comes_again_begins_another_run() -> None:
    rows = [row("a", backend, median) for median in ("3", "9") for backend in ("xla", "tf_stitch")]
    [found] = newest([*rows[:3], row("a", "tf_stitch", "3")], "xla")
    assert found.speedup("xla") == 3.0


def test_a_network_without_the_other_backend_has_its_newest_run() -> None:
    [found] = newest([row("a", "tf_stitch", "3"), row("b", "tf_stitch", "2")], "xla")
    assert (found.commit, found.speedup("xla"), found.first_call_ratio("xla")) == ("b", None, None)


def test_a_backend_that_failed_has_no_time() -> None:
    rows = {"xla": row("a", "xla", "failed: no answer within 110 s", first=""), "tf_stitch": row("a", "tf_stitch", "3")}
    failed = Comparison("net", "a", rows)
    assert (failed.milliseconds("xla"), failed.speedup("xla"), failed.peaks("xla")) == (None, None, None)


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 8.0]) == pytest.approx(2.0)


@pytest.mark.parametrize("gpu", ["h200", "h100"])
def test_every_network_on_record_has_a_title(gpu: str) -> None:
    assert {each["network"] for each in read_csv(f"networks_{gpu}.csv")} <= titles().keys()
