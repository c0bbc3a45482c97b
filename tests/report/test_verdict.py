"""The line at exit: what was gained, or why nothing was."""

from __future__ import annotations

from tf_stitch.report.entries import GraphEntry, ProfitabilityEntry, RegionEntry
from tf_stitch.report.report import Report
from tf_stitch.report.verdict import is_second_pass, why_nothing


def graph(name: str, regions: list[int], left_out: dict[str, int], work: int = 0, again: bool = False) -> GraphEntry:
    return GraphEntry(name, "CPU", [], work, regions, left_out, 1.0, stitched_work=work, again=again)


def region(number: int, runs: int) -> RegionEntry:
    return RegionEntry(number, "g", "", "native", {}, 1, 0, 1, runs=runs)


def timed(number: int, stitched: float, fallback: float, shape: int = 8) -> ProfitabilityEntry:
    chosen = "fallback" if fallback < stitched else "stitched"
    return ProfitabilityEntry(number, "cpu", [[shape]], stitched, fallback, chosen)


def report(*entries: GraphEntry | RegionEntry | ProfitabilityEntry) -> Report:
    made = Report(most_gone=0)
    for entry in entries:
        made.add(entry)
    return made


STEP = (graph("step", [0, 1, 2], {"MatMul is a library call": 10}, 90), region(0, 100), region(1, 100), region(2, 100),
        timed(0, 20_000.0, 40_000.0), timed(1, 10_000.0, 6_000.0), timed(2, 500.0, 500.0), timed(2, 200.0, 400.0, 9))
GAINED = "regions of a step 26.2 ms, TensorFlow's ops 46.4 ms: 1.77x; "


def test_a_step_is_told_by_what_runs_now() -> None:
    """Of region 1 TensorFlow's ops run on; of region 2 the shapes that came last count."""
    assert report(*STEP).status_line() == f"{GAINED}3 regions, 0 kernels for 90 of 100 ops, 1 gave way"


def test_the_graph_that_takes_most_is_told_also_when_it_is_gone() -> None:
    small = (graph("evaluation", [3], {}, 5), region(3, 2), timed(3, 10_000.0, 90_000.0))
    made = report(*STEP, *small)
    assert made.status_line().startswith(GAINED)
    made.end([0, 1, 2])
    assert made.status_line() == f"{GAINED}4 regions, 0 kernels for 95 of 105 ops, 1 gave way"


def test_regions_that_were_not_timed_are_told() -> None:
    made = report(graph("step", [0, 1], {}, 2), region(0, 30), region(1, 30), timed(0, 500.0, 1000.0))
    assert made.status_line().startswith("regions of a step 0.5 ms, TensorFlow's ops 1 ms: 2.00x (1 of its 2 timed); ")
    assert report(graph("step", [0], {}, 2), region(0, 3)).status_line("not timed") == \
        "not timed; 1 regions, 0 kernels for 2 of 2 ops"
    made = report(graph("step", [0], {}, 2), region(0, 200))
    assert made.status_line().startswith("not timed, no region was called often enough; ")
    made.remark("profitability", "region 0", "not timed against TensorFlow's ops: copies would take 9 bytes")
    assert made.status_line().startswith("not timed against TensorFlow's ops: copies would take 9 bytes; ")


def test_second_passes_count_nothing() -> None:
    """TensorFlow optimizes most graphs twice."""
    made = report(*STEP, graph("step", [], {"MatMul is a library call": 10}, again=True))
    assert "90 of 100 ops" in made.status_line()
    assert is_second_pass(["MatMul", "StitchOp"])
    assert not is_second_pass(["MatMul", "Tanh"])


def test_where_nothing_was_stitched_the_line_says_why() -> None:
    assert report().status_line() == "nothing was stitched: no tf.function ran, or XLA compiled all of them"
    python = graph("step", [], {"the graph holds Python functions": 40})
    assert report(python, python).status_line() == "nothing was stitched: the graph holds Python functions (80 ops)"
    reasons = {"XLA compiles it": 40, "not in TF_STITCH_ONLY": 3, "no result": 1}
    assert why_nothing([graph("step", [], reasons)]) == \
        "XLA compiles it (40 ops); not in TF_STITCH_ONLY (3 ops); and others"
    assert why_nothing([graph("step", [], {})]) == "1 graphs had no ops worth it"


def test_fallbacks_are_counted_where_there_are_any() -> None:
    made = report(*STEP)
    made.note("build", "region 0", "gcc is gone", 3)
    assert made.status_line().endswith("1 gave way; 3 fallbacks")
