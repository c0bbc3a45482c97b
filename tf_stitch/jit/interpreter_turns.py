"""Lets the program have Python's interpreter soon, while it is used beside the program."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

SECONDS = 1e-4

_lock = threading.Lock()
_inside = 0
_before = _ours = 0.0


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """Threads hand over the interpreter's lock after `SECONDS` inside, unless the program asked for less; may be nested
    and entered by several threads.

    A step of Keras gives the lock away a dozen times, at each call of TensorFlow, and a thread that plans or emits then
    keeps it for a turn: with the 5 ms that Python has by default, a step of half a millisecond takes ten times as long
    beside one such thread.
    """
    global _inside, _before, _ours
    with _lock:
        if _inside == 0:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(SECONDS, _before))
            _ours = sys.getswitchinterval()  # whole microseconds
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and sys.getswitchinterval() == _ours:
                sys.setswitchinterval(_before)  # else the program has set another meanwhile
