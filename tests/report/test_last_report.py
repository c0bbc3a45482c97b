"""What last_report() gives."""

from __future__ import annotations

import json
from dataclasses import asdict

from tf_stitch.report.entries import StepEntry
from tf_stitch.report.last_report import LastReport
from tf_stitch.report.report import Report
from tf_stitch.report.verdict import Step

LINE = "a call of step took 10 ms"


def report(*steps: StepEntry) -> LastReport:
    made = Report()
    made.steps = list(steps)
    made.note("build", "region 0", "gcc is gone")
    return LastReport(made.document(), LINE)


def test_it_prints_as_the_line_at_exit() -> None:
    assert repr(report()) == str(report()) == report().summary() == LINE


def test_it_is_the_report_as_a_dict() -> None:
    made = report()
    assert made["fallbacks"] == made.fallbacks == [
        {"stage": "build", "where": "region 0", "reason": "gcc is gone", "count": 1}]
    assert json.loads(json.dumps(made))["steps"] == []
    assert made.remarks == made.regions == made.kernels == []


def test_its_step_is_the_one_that_took_most() -> None:
    entries = [StepEntry("__inference_f_1", 10, (4.0,) * 4, (1.0,) * 4, 0, ""),
               StepEntry("__inference_train_step_2", 10, (40.0,) * 4, (20.0,) * 4, 4, ""),
               StepEntry("__inference_g_1", 3, (), (), 0, "it was called 3 times, too few")]  # fmt: skip
    assert report(*entries).steps == entries
    assert report(*entries).step == Step("train_step", 10, 4, 40.0, 20.0)
    assert asdict(Step("f", 1, 4, 3.0, 2.0)) | {"speedup": Step("f", 1, 4, 3.0, 2.0).speedup} == {
        "function": "f", "calls": 1, "turns": 4, "before_us": 3.0, "now_us": 2.0, "speedup": 1.5}
    assert report(entries[2]).step is None
