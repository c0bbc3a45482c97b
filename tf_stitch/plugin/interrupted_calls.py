"""KeyboardInterrupt from a call that an interrupted loop ended.

TensorFlow makes an exception of the loop's error while the main thread returns to Python. That runs Python, which finds
that Ctrl-C was pressed and raises KeyboardInterrupt there; pybind11 makes a RuntimeError of the two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_IN_PLACE_OF_AN_ERROR = "REPLACED BY KeyboardInterrupt"


def are_interrupts() -> None:
    """From now on calls of functions, and of sessions, raise KeyboardInterrupt then."""
    try:
        from tensorflow.python.client.session import BaseSession
        from tensorflow.python.eager.context import Context

        Context.call_function = _as_interrupt(Context.call_function)
        BaseSession._call_tf_sessionrun = _as_interrupt(BaseSession._call_tf_sessionrun)
    except (ImportError, AttributeError):  # another TensorFlow: the call fails with the other error
        return


def _as_interrupt(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except RuntimeError as error:
            if _IN_PLACE_OF_AN_ERROR in str(error):
                raise KeyboardInterrupt from None
            raise

    return called
