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
