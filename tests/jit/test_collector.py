"""The pause of Python's garbage collector."""

from __future__ import annotations

import gc
import threading

from tf_stitch.jit.collector import collector_paused


def test_pauses_until_the_last_one_leaves() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collector_paused():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with collector_paused():
        thread.start()
        assert entered.wait(10)
    assert not gc.isenabled(), "the other thread is still inside"
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_program_that_turned_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
