"""Partial runs of TensorFlow 1 sessions: values are fed, and fetched, one after the other in one run of a graph.

A region waits for all its inputs. If one is fed only after another region's result was fetched, it would wait for ever.
"""

from __future__ import annotations

import functools
from typing import Any

from tensorflow.python.client.session import BaseSession

from tf_stitch.plugin import graph_hook


def leave_alone() -> None:
    """Graphs that `Session.partial_run_setup` makes stay as they are: the calling thread optimizes them."""
    setup = BaseSession.partial_run_setup

    @functools.wraps(setup)
    def partial_run_setup(self: BaseSession, *args: Any, **kwargs: Any) -> Any:
        with graph_hook.suspended():
            return setup(self, *args, **kwargs)

    BaseSession.partial_run_setup = partial_run_setup
