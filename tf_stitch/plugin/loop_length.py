"""Whether a loop is known to end soon: it counts from a small number to another, or over a tensor's size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_flow import WHILES
from tf_stitch.plugin.value_origin import Origin, Scope

MOST_TRIPS = 10_000
"""Of a loop that is short, where its length is a number. One over a tensor is as long as what is in memory."""
_UPWARDS = {"Less": True, "LessEqual": True, "Greater": False, "GreaterEqual": False}
"""Comparisons under which a loop goes on -> whether its counter has to grow, so that it ends."""


@dataclass(frozen=True)
class _Counter:
    """
    Attributes:
        place: of the counter among a loop's values; upwards: it has to grow.
        limit: what it is compared with, in the loop's condition.
    """

    place: int
    upwards: bool
    limit: Origin


def is_short(loop: NodeDef, caller: FunctionDef, functions: Mapping[str, FunctionDef]) -> bool:
    """Whether a While node of `caller` is known to make few trips.

    Args:
        functions: those that nodes name.
    """
    return _is_short(loop, Scope(caller, functions))


def _is_short(loop: NodeDef, around: Scope) -> bool:
    """Whether a value counts from a small number to another, as the condition asks for."""
    body = around.function(loop.attr["body"].func.name)
    for counter in _counters(around.function(loop.attr["cond"].func.name)):
        step = _step(body, counter.place)
        if not step or (step > 0) is not counter.upwards or not _is_small(around.origin(loop.input[counter.place])):
            continue
        limit = counter.limit
        if limit.argument is not None:
            if body.result(limit.argument).argument != limit.argument:
                continue  # it may move away
            limit = around.origin(loop.input[limit.argument])
        if _is_small(limit):
            return True
    return False


def _counters(condition: Scope) -> Iterator[_Counter]:
    """Of conditions that all must hold for the loop to go on."""
    todo = [condition.result(0)]
    while todo:
        value = todo.pop()
        if value.node is None:
            continue
        if value.node.op == "LogicalAnd":
            todo += value.operands()
        elif value.node.op in _UPWARDS:
            left, right = value.operands()
            upwards = _UPWARDS[value.node.op]
            for counted, limit, grows in ((left, right, upwards), (right, left, not upwards)):
                if counted.argument is not None:
                    yield _Counter(counted.argument, grows, limit)


def _step(body: Scope, place: int) -> int:
    """What a trip adds to the loop's value at this place; 0 if that is not known."""
    value = body.result(place)
    if value.node is None or value.node.op not in ("Add", "AddV2", "Sub"):
        return 0
    left, right = value.operands()
    if value.node.op != "Sub" and left.argument is None:
        left, right = right, left
    step = _number(right)
    if left.argument != place or step is None:
        return 0
    return -step if value.node.op == "Sub" else step


def _is_small(value: Origin) -> bool:
    if value.node is None:  # an argument
        return False
    if value.node.op == "Const":
        numbers = _numbers(value.node)
        return numbers.dtype.kind in "iu" and bool(np.all(np.abs(numbers.astype(np.float64)) <= MOST_TRIPS))
    if value.node.op == "StridedSlice":
        of = value.operands()[0]
        return of.node is not None and (of.node.op in ("Shape", "ShapeN") or (of.node.op == "Const" and _is_small(of)))
    if value.node.op in ("Add", "AddV2", "Sub"):
        return all(map(_is_small, value.operands()))
    if value.node.op not in WHILES:
        return False
    # A gradient's loop is as long as the loop before it, which gives it its counter.
    loop, place = value.node, value.output
    return _step(value.scope.function(loop.attr["body"].func.name), place) != 0 and \
        _is_small(value.scope.origin(loop.input[place])) and _is_short(loop, value.scope)


def _number(value: Origin) -> int | None:
    """None if it is no constant scalar, or no whole number: what adds fractions may take as many trips as it likes."""
    if value.node is None or value.node.op != "Const":
        return None
    numbers = _numbers(value.node)
    return int(numbers) if numbers.size == 1 and numbers.dtype.kind in "iu" else None


def _numbers(node: NodeDef) -> NDArray[Any]:
    return np.asarray(tf.make_ndarray(node.attr["value"].tensor))
