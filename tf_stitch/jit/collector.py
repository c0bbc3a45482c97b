"""Keeps Python's cyclic garbage collector out of the compiler."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_inside = 0
_resume = False


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No collections inside, in any thread; may be nested and entered by several threads.

    The compiler makes many objects and no cycles. Each full collection that they set off would walk all that tracing
    the program has made, without result: a third of the time of a large graph.
    """
    global _inside, _resume
    with _lock:
        if _inside == 0:
            _resume = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _resume:
                gc.enable()
