"""Lets the program have Python's interpreter soon, while it is used beside the program."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from tf_stitch.jit.process_setting import ProcessSetting

SECONDS = 1e-4


def _shorten() -> Callable[[], object]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(SECONDS, before))
    ours = sys.getswitchinterval()  # whole microseconds

    def undo() -> None:
        if sys.getswitchinterval() == ours:  # else the program has set another meanwhile
            sys.setswitchinterval(before)

    return undo


_SHORT = ProcessSetting(_shorten)


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """Threads hand over the interpreter's lock after `SECONDS` inside, unless the program asked for less; may be nested
    and entered by several threads.

    A step of Keras gives the lock away a dozen times, at each call of TensorFlow, and a thread that plans or emits then
    keeps it for a turn: with the 5 ms that Python has by default, a step of half a millisecond takes up to ten times as
    long beside one such thread.
    """
    with _SHORT.held():
        yield
