"""Tuning: what is tried, what wins, and what gives up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.compiler.test_template_kernels import kernel
from tests.differential import patterns as p
from tests.differential.runner import cache, region
from tests.support.whole_patterns import x
from tf_stitch.compiler.program_times import ProgramTimer
from tf_stitch.compiler.template_kernels import possible_kernels
from tf_stitch.compiler.template_tuner import BATCH, text_of, tune, worth_trying
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import BuildError
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.measured_cost import MARGIN
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.runtime.host_builder import compiler

B = p.B


def softmax() -> LoweredKernel:
    return kernel(region("softmax", [p.softmax(x(512, 1000))]), H200)


class FakeTimer:
    """Times by program, 100 us unless told otherwise; programs that `breaks` has break their batch."""

    def __init__(self, times: dict[Program, float], breaks: Sequence[Program] = ()) -> None:
        self.times, self.breaks, self.asked = times, list(breaks), list[Program]()

    def __call__(self, programs: Sequence[Program]) -> list[float]:
        if any(program in self.breaks for program in programs):
            raise BuildError("too much of everything")
        self.asked += programs
        return [self.times.get(program, 100.0) for program in programs]


def test_the_fastest_wins() -> None:
    default = softmax()
    fast = worth_trying(list(possible_kernels(default, H200, True)), H200, 20)[13]
    found = tune(default, H200, True, FakeTimer({fast.program: 90.0}), most=20)
    assert found is not None
    assert (found.best.program, found.best_us, found.default_us) == (fast.program, 90.0, 100.0)
    record = found.record()
    assert (record.tried, record.possible) == (20, len(list(possible_kernels(default, H200, True))))
    assert (record.best, record.default) == (text_of(fast), text_of(default))


def test_noise_does_not_win() -> None:
    default = softmax()
    near = worth_trying(list(possible_kernels(default, H200, True)), H200, 20)[5]
    found = tune(default, H200, True, FakeTimer({near.program: 100 * (1 - MARGIN / 2)}), most=20)
    assert found is not None
    assert found.best is default
    assert found.record().best == found.record().default


def test_a_lucky_time_has_to_be_confirmed() -> None:
    default = softmax()
    lucky = worth_trying(list(possible_kernels(default, H200, True)), H200, 20)[5]
    timer = FakeTimer({lucky.program: 50.0})

    def once(programs: Sequence[Program]) -> list[float]:
        found = timer(programs)
        timer.times[lucky.program] = 101.0
        return found

    found = tune(default, H200, True, once, most=20)
    assert found is not None
    assert found.best is default


def test_a_kernel_that_breaks_costs_its_own_time_alone() -> None:
    default = softmax()
    broken = worth_trying(list(possible_kernels(default, H200, True)), H200, 20)[2]
    found = tune(default, H200, True, FakeTimer({}, [broken.program]), most=20)
    assert found is not None
    assert found.failed == {text_of(broken): "too much of everything"}
    assert len(found.times) == 19


@pytest.mark.parametrize("us", [math.nan, 0.0])
def test_a_default_without_a_time_is_said(us: float) -> None:
    default = softmax()
    timer = FakeTimer({default.program: us})
    with pytest.raises(BuildError, match="not timed"):
        tune(default, H200, True, timer)
    assert len(timer.asked) == BATCH


def test_time_runs_out() -> None:
    timer = FakeTimer({})
    assert tune(softmax(), H200, True, timer, go_on=lambda: len(timer.asked) < 2 * BATCH) is None
    assert len(timer.asked) == 2 * BATCH


def test_the_model_is_not_all_that_decides_what_is_tried() -> None:
    kernels = list(possible_kernels(softmax(), H200, True))
    chosen = worth_trying(kernels, H200, 32)
    assert len(set(map(text_of, chosen))) == 32
    assert chosen[0] is kernels[0]
    assert worth_trying(kernels[:9], H200, 32)[0] is kernels[0]
    assert len(worth_trying(kernels[:9], H200, 32)) == 9


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_on_this_cpu() -> None:
    default = kernel(region("sums", [B.sum(B.exp(x(500, 3000)), [0])]), CPU)
    found = tune(default, CPU, True, ProgramTimer(CPU, -1, cache()))
    assert found is not None
    assert found.failed == {}
    assert len(found.times) == found.possible == 8
    assert found.best_us <= found.default_us
    assert all(1 < us < 1e6 for us in found.times.values())


def test_too_large_a_kernel_is_not_timed(tmp_path: Path) -> None:
    assert math.isnan(ProgramTimer(CPU, -1, cache(), largest=1000)([softmax_cpu().program])[0])


def softmax_cpu() -> LoweredKernel:
    return kernel(region("softmax", [p.softmax(x(512, 1000))]), CPU)


def test_records_last_beyond_the_process(tmp_path: Path) -> None:
    found = tune(softmax(), H200, True, FakeTimer({}), most=3)
    assert found is not None
    TunedTemplates(tmp_path / "h200.json").add({"key": found.record()})
    assert TunedTemplates(tmp_path / "h200.json").get("key") == found.record()


@pytest.mark.parametrize("text", [
    "{", "[]", '{"a": {}}', '{"a": 1}',
    '{"a": {"default": 1, "best": "x", "default_us": 1, "best_us": 1, "tried": 1, "possible": 1}}'])
def test_damaged_records_are_said_and_made_anew(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    records = TunedTemplates(tmp_path / "x.json")
    assert "tuned templates" in (records.problem or "")
    assert len(records) == 0
