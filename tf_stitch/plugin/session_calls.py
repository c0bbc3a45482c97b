"""First runs of a TensorFlow 1 session run TensorFlow's graph, as first calls of a function do (plugin/first_calls.py).

A session keeps an instance of its graph for what is fetched. Ours is a callable of the same session, made in the
background: TensorFlow optimizes its graph, which is rewritten, and runs nothing of it. Both share variables.
"""

from __future__ import annotations

import hashlib
import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf.config_pb2 import CallableOptions
from tensorflow.python.framework import op_def_registry

from tf_stitch.plugin import graph_hook
from tf_stitch.plugin.allowance import Account
from tf_stitch.plugin.first_calls import FirstCalls, Unbuilt
from tf_stitch.plugin.waiting import LOOPS, MOST_BYTES, keeps_no_state

GRAPH = "tf_graph"
"""What the graph hook calls each graph of a session."""
_RUNS = "_tf_stitch_runs"
_VARIABLES = ("Variable", "VariableV2")
_numbers = itertools.count()


@dataclass(eq=False)
class _Runs:
    """Runs of a session for the same fetches.

    Attributes:
        at_once: kernels run from the first one on.
        unbuilt: from the second one on, of others.
        stitched: the callable that runs kernels, once it is made.
    """

    at_once: bool
    unbuilt: Unbuilt | None = None
    stitched: list[Any] = field(default_factory=list)


class SessionCalls:
    """Runs of all sessions."""

    def __init__(self, first: FirstCalls) -> None:
        self._first = first

    def run(self, session: Any, plain: Callable[[], Any], targets: Sequence[Any], fetches: Sequence[Any],
            feeds: Mapping[Any, Any]) -> Any:
        """One run: what it fetches. `plain` is TensorFlow's way.

        Args:
            targets: operations; fetches: tensors; feeds: values by references of tensors.
        """
        known: dict[object, _Runs] = session.__dict__.setdefault(_RUNS, {})  # goes with it: callables hold the session
        key = tuple(map(id, targets)), tuple(map(id, fetches)), tuple(feeds)
        runs = known.get(key)
        if runs is None:
            ops = _ops(targets, fetches, feeds)
            runs = known[key] = _Runs(not (graph_hook.is_on_here() and self._first.sessions_wait and _may_wait(ops)))
            if not runs.at_once:  # it makes the graph, and says nothing of later ones
                return _left_alone(plain)
        elif not runs.at_once and runs.unbuilt is None:
            runs.unbuilt = _unbuilt(targets, fetches, feeds)
            self._first.add(runs.unbuilt)
        if runs.unbuilt is None:
            return plain()

        def stitched() -> Any:
            return session._do_call(runs.stitched[0], *feeds.values())

        if self._first.is_over(runs.unbuilt.name):
            return stitched()
        return self._first.run(runs.unbuilt, lambda: _left_alone(plain), stitched, lambda: _Arguments(
            weakref.ref(session), _options(targets, fetches, feeds), runs.stitched))


@dataclass(frozen=True)
class _Arguments:
    """What is run, and where the callable goes."""

    session: weakref.ref[Any]
    options: CallableOptions
    made: list[Any]

    def call(self) -> _Making | None:
        """None where the session is gone."""
        session = self.session()
        return None if session is None or session._closed else _Making(session, self.options, self.made)


@dataclass(frozen=True)
class _Making:
    """Makes the callable."""

    session: Any
    options: CallableOptions
    made: list[Any]

    def __call__(self) -> None:
        self.made.append(self.session._make_callable_from_options(self.options))

    @property
    def is_wanted(self) -> bool:
        """Whether the session is open."""
        return not self.session._closed


def _left_alone(plain: Callable[[], Any]) -> Any:
    with graph_hook.left_alone(GRAPH):
        return plain()


def _unbuilt(targets: Sequence[Any], fetches: Sequence[Any], feeds: Mapping[Any, Any]) -> Unbuilt:
    """With a key that is the same in each run of a program: the graph with its names, and what is fetched."""
    digest, nodes = hashlib.sha256(_options(targets, fetches, feeds).SerializeToString(deterministic=True)), 0
    for op in sorted(_ops(targets, fetches, feeds), key=lambda op: str(op.name)):
        digest.update(op.node_def.SerializeToString(deterministic=True))
        nodes += 1
    return Unbuilt(f"runs of a session, {next(_numbers)}".encode(), GRAPH, digest.hexdigest(), Account(nodes), calls=1)


def _options(targets: Sequence[Any], fetches: Sequence[Any], feeds: Mapping[Any, Any]) -> CallableOptions:
    return CallableOptions(feed=[reference.deref().name for reference in feeds], fetch=[t.name for t in fetches],
                           target=[op.name for op in targets])


def _ops(targets: Sequence[Any], fetches: Sequence[Any], feeds: Mapping[Any, Any]) -> list[Any]:
    """Operations that a run needs."""
    fed = {id(reference.deref()) for reference in feeds}
    todo, found = [*targets, *(t.op for t in fetches if id(t) not in fed)], dict[Any, None]()
    while todo:
        op = todo.pop()
        if op not in found:
            found[op] = None
            todo += [t.op for t in op.inputs if id(t) not in fed]
            todo += op.control_inputs
    return list(found)


def _may_wait(ops: Sequence[Any]) -> bool:
    """Whether two instances of a graph, one after the other, compute what one does, and take little memory."""
    return all(map(_may_be_twice, ops)) and sum(_constant_bytes(ops)) <= MOST_BYTES


def _may_be_twice(op: Any) -> bool:
    definition = op_def_registry.get(op.type)
    if definition is None or op.type in LOOPS or any("func" in attr.type for attr in definition.attr):
        return False
    return not definition.is_stateful or op.type in _VARIABLES or keeps_no_state(op.node_def)


def _constant_bytes(ops: Sequence[Any]) -> Iterator[int]:
    for op in ops:
        if op.type == "Const":
            tensor = op.outputs[0]
            yield int(tensor.shape.num_elements() or 0) * max(tf.as_dtype(tensor.dtype).size or 0, 1)
