"""Runs an op, and compares its sizes with what TensorFlow's inference calls equal."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework.op_def_pb2 import OpDef
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.python.grappler import item as grappler_item

from tools.inferred_sizes.draw import FEW, Call, draw

RUNS = 24
"""Of an op, with sizes that were drawn anew, after which it counts as checked."""


@dataclass
class Checked:
    """Attributes:
        runs: that the op made.
        wrong: what inference says and is not so.
    """

    runs: int = 0
    wrong: dict[str, str] = field(default_factory=dict)


def check_op(op: OpDef, seed: int, draws: int) -> Checked:
    """
    Raises:
        Unsuitable: no draw of this op can run.
    """
    rng, found = random.Random(f"{op.name} {seed}"), Checked()
    function = getattr(tf.raw_ops, op.name)
    for _ in range(draws):
        call = draw(op, rng)
        outputs = _run(function, call)
        if outputs is None:
            continue
        found.runs += 1
        for constant in (False, True):
            for what in _contradictions(function, call, outputs, constant):
                found.wrong.setdefault(what, _text(call))
        if found.runs >= RUNS:
            break
    return found


def _run(function: Callable[..., Any], call: Call) -> list[tuple[int, ...]] | None:
    """Shapes of the results; None if the op refuses its arguments."""
    try:
        results = function(**{name: _tensors(value) for name, value in call.arguments.items()}, **call.attrs)
    except (tf.errors.OpError, ValueError, TypeError, RuntimeError, OverflowError):
        return None
    return [tuple(t.shape) if isinstance(t, tf.Tensor) and t.shape.rank is not None else () for t in _flat(results)]


def _tensors(value: Any) -> Any:
    return [tf.constant(v) for v in value] if isinstance(value, list) else tf.constant(value)


def _flat(results: Any) -> list[Any]:
    if results is None or isinstance(results, tf.Operation):
        return []
    return tf.nest.flatten(results)


def _contradictions(function: Callable[..., Any], call: Call, outputs: Sequence[tuple[int, ...]], constant: bool
                    ) -> Iterator[str]:
    """What inference says of arguments of unknown sizes that these sizes contradict.

    Args:
        constant: integers that may be sizes, axes or paddings are constants of the graph.
    """
    with tf.Graph().as_default() as graph:
        given: dict[str, list[tf.Tensor]] = {}
        shapes: dict[str, list[tuple[int, ...]]] = {}
        for name, value in call.arguments.items():
            values = value if isinstance(value, list) else [value]
            given[name] = [_argument(v, constant) for v in values]
            shapes[name] = [v.shape for v in values]
        operands = {n: tensors if isinstance(call.arguments[n], list) else tensors[0] for n, tensors in given.items()}
        try:
            results = [t for t in _flat(function(**operands, **call.attrs)) if isinstance(t, tf.Tensor)]
        except (tf.errors.OpError, ValueError, TypeError, RuntimeError):
            return  # refused where its sizes are not known
        if not results:
            return
        meta = MetaGraphDef(graph_def=graph.as_graph_def())
        meta.collection_def["train_op"].node_list.value.append(results[0].op.name)
        types = grappler_item.Item(meta, ignore_user_placement=False).GetOpProperties()
    tensors = [(f"{n}[{i}]", t, shape) for n, all_ in given.items()
               for i, (t, shape) in enumerate(zip(all_, shapes[n], strict=True))]
    tensors += [(f"output {i}", t, shape) for i, (t, shape) in enumerate(zip(results, outputs, strict=False))]
    known: dict[int, tuple[int, str]] = {}
    for what, tensor, shape in tensors:
        inferred = types[tensor.op.name][tensor.value_index].shape
        if inferred.unknown_rank:
            continue
        if len(inferred.dim) != len(shape):
            yield f"rank of {what}"
            continue
        for axis, (dim, size) in enumerate(zip(inferred.dim, shape, strict=True)):
            here = f"{what} axis {axis}"
            if dim.size >= 0 and dim.size != size:
                yield f"{here} is {dim.size}" if not what.startswith("output") else f"size of {here}"
            elif dim.size < -1:
                before, where = known.setdefault(dim.size, (size, here))
                if before != size:
                    yield f"{where} = {here}"


def _argument(value: NDArray[Any], constant: bool) -> tf.Tensor:
    if constant and value.size <= FEW and np.issubdtype(value.dtype, np.integer):
        return tf.constant(value)
    given = tf.compat.v1.placeholder(tf.as_dtype(value.dtype) if value.dtype != object else tf.string)
    return tf.raw_ops.EnsureShape(input=given, shape=[None] * value.ndim)


def _text(call: Call) -> str:
    def short(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(short, value))}]"
        small = value.size <= FEW and np.issubdtype(value.dtype, np.integer)
        return str(value.tolist()) if small else f"{value.dtype}{list(value.shape)}"

    parts = chain(((n, short(v)) for n, v in call.arguments.items()), call.attrs.items())
    return ", ".join(f"{name}={value}" for name, value in parts)
