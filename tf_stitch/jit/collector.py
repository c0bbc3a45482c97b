"""Keeps Python's cyclic garbage collector out of the compiler."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator

from tf_stitch.jit.process_setting import ProcessSetting


def _pause() -> Callable[[], object]:
    was_on = gc.isenabled()
    gc.disable()
    return gc.enable if was_on else gc.disable


_PAUSED = ProcessSetting(_pause)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No collections inside, in any thread; may be nested and entered by several threads.

    The compiler makes many objects and no cycles. Each full collection that they set off would walk all that tracing
    the program has made, without result: a third of the time of a large graph.
    """
    with _PAUSED.held():
        yield
