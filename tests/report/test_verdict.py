"""The line at exit: what was gained, or why nothing was."""

from __future__ import annotations

from tf_stitch.report.entries import GraphEntry, ProfitabilityEntry, RegionEntry, StepEntry
from tf_stitch.report.report import Report
from tf_stitch.report.step_times import StepTimes
from tf_stitch.report.verdict import is_second_pass, why_nothing


def graph(name: str, regions: list[int], left_out: dict[str, int], work: int = 0, again: bool = False) -> GraphEntry:
    return GraphEntry(name, "CPU", [], work, regions, left_out, 1.0, stitched_work=work, again=again)


def region(number: int, runs: int) -> RegionEntry:
    return RegionEntry(number, "g", "", "native", {}, 1, 0, 1, runs=runs)


def timed(number: int, stitched: float, fallback: float, shape: int = 8, pairs: int = 3) -> ProfitabilityEntry:
    chosen = "fallback" if fallback < stitched else "stitched"
    return ProfitabilityEntry(number, "cpu", [[shape]], stitched, fallback, chosen, pairs=pairs)


def report(*entries: GraphEntry | RegionEntry | ProfitabilityEntry) -> Report:
    made = Report(most_gone=0)
    for entry in entries:
        made.add(entry)
    return made


REGIONS = (graph("step", [0, 1, 2], {"MatMul is a library call": 10}, 90), region(0, 100), region(1, 100),
           region(2, 100), timed(0, 20_000.0, 40_000.0), timed(1, 10_000.0, 6_000.0), timed(2, 500.0, 500.0),
           timed(2, 200.0, 400.0, 9))
NOT_MEASURED = "no step was measured: the program called no stitched tf.function; "
TIMED = f"{NOT_MEASURED}regions of a step 26.2 ms, by TensorFlow's ops 46.4 ms each alone; "
OPS = "3 regions, 0 kernels for 90 of 100 ops (they were still being built), 1 gave way"


def step(before: float, now: float, turns: int = 4, calls: int = 300, name: str = "__inference_train_step_17"
         ) -> StepEntry:
    why = "" if turns >= 4 else f"{turns} of 4 turns were measured, too few"
    return StepEntry(name, calls, (before,) * turns, (now,) * turns, 0, why)


def with_steps(*steps: StepEntry) -> str:
    made = report(*REGIONS)
    made.steps = list(steps)
    return made.status_line()


def test_a_step_is_what_the_user_called() -> None:
    """What regions took says nothing then: it is not what the program gained."""
    assert with_steps(step(8_000.0, 4_000.0)) == \
        f"a call of train_step took 8 ms and takes 4 ms now: 2.00x (middle half of 4 turns); {OPS}"


def test_a_slower_step_is_told() -> None:
    assert with_steps(step(4_000.0, 5_000.0)).startswith(
        "a call of train_step took 4 ms and takes 5 ms now: 25% slower (middle half of 4 turns); ")
    assert "now: no difference (" in with_steps(step(4_000.0, 4_080.0))
    assert "now: no difference (" in with_steps(step(4_080.0, 4_000.0))


def test_a_descheduled_measurement_says_nothing() -> None:
    times = StepTimes((4.0,) * 4, (4.0,) * 4).with_turn(6_828.0, 4.0)  # 1,707 times as long
    entry = StepEntry("f", 100, times.before_us, times.now_us, 4, "")
    assert with_steps(entry).startswith("a call of f took 4 us and takes 4 us now: no difference (")


def test_too_few_turns_say_so() -> None:
    said = with_steps(step(8_000.0, 1.0, turns=1))
    assert said.startswith("no step was measured: train_step: 1 of 4 turns were measured, too few; regions of a step ")
    assert "x" not in said.split(";")[1].removeprefix(" regions of a step")


def test_of_several_functions_the_one_that_takes_most_is_told() -> None:
    entries = step(8_000.0, 4_000.0), step(900.0, 100.0, name="__inference_loss_2")
    assert with_steps(*entries) == with_steps(*reversed(entries)) == with_steps(entries[0])
    unmeasured = StepEntry("__inference_next_3", 5_000, (), (), 0, "it reads a data set")
    assert with_steps(*entries, unmeasured).startswith(
        "a call of train_step took 8 ms and takes 4 ms now: 2.00x (middle half of 4 turns) (not measured: next: it "
        "reads a data set); ")


def test_without_a_step_regions_are_told_by_what_runs_now() -> None:
    """Of region 1 TensorFlow's ops run on; of region 2 the shapes that came last count."""
    assert report(*REGIONS).status_line() == f"{TIMED}{OPS}"


def test_a_step_of_a_session_is_a_call_of_its_run() -> None:
    made = report(graph("tf_graph", [0], {}, 2), region(0, 30), timed(0, 500.0, 1000.0))
    assert made.status_line().startswith(
        "no step was measured: of Session.run regions alone are timed; regions of a call of Session.run 0.5 ms, by "
        "TensorFlow's ops 1 ms each alone; ")
    made.steps = [step(8_000.0, 4_000.0)]
    assert made.status_line().startswith("a call of train_step took 8 ms")


def test_the_graph_that_takes_most_is_told_also_when_it_is_gone() -> None:
    small = (graph("evaluation", [3], {}, 5), region(3, 2), timed(3, 10_000.0, 90_000.0))
    made = report(*REGIONS, *small)
    assert made.status_line().startswith(TIMED)
    made.end([0, 1, 2])
    assert made.status_line().startswith(f"{TIMED}4 regions, 0 kernels for 95 of 105 ops (")


def test_regions_that_were_not_timed_are_told() -> None:
    made = report(graph("step", [0, 1], {}, 2), region(0, 30), region(1, 30), timed(0, 500.0, 1000.0))
    assert made.status_line().startswith(
        f"{NOT_MEASURED}regions of a step 0.5 ms, by TensorFlow's ops 1 ms each alone (1 of its 2 timed often enough)")
    made = report(graph("step", [0], {}, 2), region(0, 30), timed(0, 500.0, 1000.0, pairs=1))
    assert made.status_line().startswith(f"{NOT_MEASURED}no region was called often enough to be timed; ")
    assert report(graph("step", [0], {}, 2), region(0, 3)).status_line("not timed").startswith("not timed; 1 region, ")
    made = report(graph("step", [0], {}, 2), region(0, 200))
    assert made.status_line().startswith(f"{NOT_MEASURED}no region was called often enough to be timed; ")
    made.remark("profitability", "region 0", "not timed against TensorFlow's ops: copies would take 9 bytes")
    assert "; not timed against TensorFlow's ops: copies would take 9 bytes; " in made.status_line()


def test_the_line_says_why_there_are_no_kernels() -> None:
    made = report(graph("step", [0], {}, 9), region(0, 0))
    assert made.status_line().endswith("1 region, 0 kernels for 9 of 9 ops (none of the regions was run)")
    assert "0 kernels for 9 of 9 ops (functions without kernels yet: 1 called once)" in made.status_line(
        not_yet="functions without kernels yet: 1 called once")
    made.note("build", "region 0", "gcc is gone")
    assert "0 kernels for 9 of 9 ops (gcc is gone)" in made.status_line()


def test_second_passes_count_nothing() -> None:
    """TensorFlow optimizes most graphs twice."""
    made = report(*REGIONS, graph("step", [], {"MatMul is a library call": 10}, again=True))
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
    assert why_nothing([graph("step", [], {})]) == "1 graph had no ops worth it"


def test_fallbacks_are_counted_where_there_are_any() -> None:
    made = report(*REGIONS)
    made.note("build", "region 0", "gcc is gone", 3)
    assert made.status_line().endswith("1 gave way; 3 fallbacks")
