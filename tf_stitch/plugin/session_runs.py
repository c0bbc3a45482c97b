"""Lets first runs of TensorFlow 1 sessions be TensorFlow's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorflow.python.client.session import BaseSession

if TYPE_CHECKING:
    from tf_stitch.plugin.first_calls import FirstCalls
    from tf_stitch.plugin.session_calls import SessionCalls


def wait_for_kernels(first_calls: Callable[[], FirstCalls | None]) -> None:
    """From now on first runs of sessions run TensorFlow's graph.

    Args:
        first_calls: as in `function_calls.shorten`.
    """
    original = BaseSession._do_run

    @functools.cache
    def runs() -> SessionCalls | None:
        first = first_calls()
        if first is None:
            return None
        from tf_stitch.plugin.session_calls import SessionCalls

        return SessionCalls(first)

    @functools.wraps(original)
    def _do_run(self: Any, handle: Any, target_list: Any, fetch_list: Any, feed_dict: Any, options: Any,
                run_metadata: Any) -> Any:
        def plain() -> Any:
            return original(self, handle, target_list, fetch_list, feed_dict, options, run_metadata)

        calls = runs()
        if calls is None or handle is not None or options is not None or run_metadata is not None or self._target:
            return plain()
        return calls.run(self, plain, target_list, fetch_list, feed_dict)

    BaseSession._do_run = _do_run
