"""The turns of threads at Python's interpreter."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tf_stitch.jit.interpreter_turns import SECONDS, short_turns
from tf_stitch.jit.prebuild import Prebuilder
from tf_stitch.plugin.background import Background

LONG = 5e-3


@pytest.fixture(autouse=True)
def _python_as_it_starts() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(LONG)
    yield
    sys.setswitchinterval(before)


def _turn() -> float:
    return round(sys.getswitchinterval(), 5)  # Python keeps whole microseconds


def test_are_short_until_the_last_one_leaves() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with short_turns():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with short_turns():
        thread.start()
        assert entered.wait(10)
        assert _turn() == SECONDS
    assert _turn() == SECONDS, "the other thread is still inside"
    leave.set()
    thread.join()
    assert _turn() == LONG


def test_a_program_that_asked_for_shorter_ones_has_them() -> None:
    sys.setswitchinterval(SECONDS / 5)
    with short_turns():
        assert _turn() == SECONDS / 5
    assert _turn() == SECONDS / 5


def test_what_the_program_asks_for_meanwhile_stays() -> None:
    with short_turns():
        sys.setswitchinterval(2e-3)
    assert _turn() == 2e-3


def test_what_is_done_beside_the_program_has_short_ones() -> None:
    turns, done = list[float](), threading.Event()
    prebuilder = Prebuilder(lambda *_: None, workers=1)
    prebuilder.submit(lambda: turns.append(_turn()))
    assert prebuilder.finish(10)
    prebuilder.close()
    assert Background().submit(lambda: (turns.append(_turn()), done.set())[-1])
    assert done.wait(10)
    assert turns == [SECONDS] * 2
    end = time.monotonic() + 10
    while _turn() != LONG and time.monotonic() < end:  # the thread has said that it is done before it leaves
        time.sleep(0.01)
    assert _turn() == LONG
