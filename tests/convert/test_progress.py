from __future__ import annotations

import io

import pytest

from tf_stitch.convert import progress as module
from tf_stitch.convert.progress import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its last element is the time."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[-1])
    return now


def test_steps_are_said_and_timed(clock: list[float]) -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.step("reading")
    clock.append(103.0)
    progress.step("building")
    clock.append(104.5)
    progress.step("reading")
    clock.append(105.0)
    progress.step("")
    assert stream.getvalue().splitlines() == ["[tf_stitch]    0.0 s  reading", "[tf_stitch]    3.0 s  building",
                                              "[tf_stitch]    4.5 s  reading"]
    assert progress.seconds == {"reading": 3.5, "building": 1.5}


def test_parts_of_a_step_are_said_every_two_seconds_and_not_at_its_end(clock: list[float]) -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.step("building")
    for now, part in ((101.0, 0.1), (102.5, 0.25), (103.0, 0.3), (105.0, 0.75), (109.0, 1.0)):
        clock.append(now)
        progress.part(part)
    assert [line.rpartition("building")[2] for line in stream.getvalue().splitlines()] == ["", ": 25%", ": 75%"]
