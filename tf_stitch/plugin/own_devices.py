"""Which devices belong to this process. A graph may hold nodes of other tasks: those of a parameter server, or of the
workers of TensorFlow's servers. Regions are known by number in the process that rewrote the graph, and a server need
not have loaded our ops at all."""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.python.eager import context

Task: TypeAlias = tuple[str, int]

_ALONE = frozenset({("localhost", 0)})
"""What TensorFlow calls a process that belongs to no cluster."""
_served: set[Task] = set()


def notice_servers() -> None:
    """Remembers the tasks of the servers that this process starts: they optimize graphs here."""
    server = tf.distribute.Server
    original = server.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _served.add(_task_of(self.server_def))

    server.__init__ = __init__


def is_own_device(device: str) -> bool:
    """Whether a node's device is of this process. In a cluster one that names no task may be anybody's."""
    return _is_among(device, own_tasks())


def own_tasks() -> frozenset[Task]:
    """The tasks that this process is now, by the eager context and the servers that run here."""
    ctx = context.context()
    cluster = ctx.get_server_def() or getattr(ctx, "_collective_ops_server_def", None)
    return frozenset({*_served, *(_ALONE if cluster is None else (_task_of(cluster),))})


def _task_of(server_def: Any) -> Task:
    return server_def.job_name, server_def.task_index


@functools.lru_cache(maxsize=1 << 12)
def _is_among(device: str, tasks: frozenset[Task]) -> bool:
    spec = tf.DeviceSpec.from_string(device)
    if spec.job is None or spec.task is None:
        return tasks == _ALONE and spec.job in (None, "localhost")
    return (spec.job, spec.task) in tasks
