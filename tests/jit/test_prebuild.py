"""Work in the background, and waiting for it."""

from __future__ import annotations

import threading
import time

from tf_stitch.jit.prebuild import Prebuilder


def test_all_is_done_that_was_submitted_and_what_that_submits() -> None:
    prebuilder, done = Prebuilder(lambda *_: None, workers=1), list[str]()

    def first() -> None:
        time.sleep(0.05)
        prebuilder.submit(lambda: done.append("second"))
        done.append("first")

    prebuilder.submit(first)
    assert prebuilder.finish(10)
    assert done == ["first", "second"]
    prebuilder.close()


def test_waiting_ends() -> None:
    prebuilder, gate = Prebuilder(lambda *_: None, workers=1), threading.Event()
    assert prebuilder.finish(0), "nothing to wait for"
    prebuilder.submit(gate.wait)
    assert not prebuilder.finish(0.05)
    gate.set()
    assert prebuilder.finish(10)
    prebuilder.close()


def test_what_fails_is_done() -> None:
    prebuilder = Prebuilder(lambda *_: None, workers=1)
    prebuilder.submit(lambda: 1 // 0)
    assert prebuilder.finish(10)
    prebuilder.close()


def test_what_is_waited_for_does_not_wait_for_others() -> None:
    prebuilder, gate = Prebuilder(lambda *_: None, workers=1), threading.Event()
    prebuilder.submit(gate.wait)
    build = prebuilder.submit(lambda: 7, awaited=True)
    assert build is not None
    assert build.result(10) == 7
    gate.set()
    prebuilder.close()


def test_a_fork_builds_beside_the_program_too() -> None:
    """Though it has no threads of its parent's."""
    prebuilder = Prebuilder(lambda *_: None, workers=1)
    started = prebuilder.submit(lambda: 7, awaited=True)
    assert started is not None
    assert started.result(10) == 7
    prebuilder._process -= 1
    threads = prebuilder._awaited
    build = prebuilder.submit(lambda: 8, awaited=True)
    assert build is not None
    assert build.result(10) == 8
    assert prebuilder._awaited is not threads
    threads.shutdown()
    prebuilder.close()
