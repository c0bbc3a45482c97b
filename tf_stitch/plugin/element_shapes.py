"""How large the batches of a data set are at most, where its functions do not say.

The last batch of a data set may be smaller than the others, so a function that reads it knows no number of rows. The
Python objects that it was made of do: `batch(32)`, or the index arrays that Keras slices its arguments by.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef

from tf_stitch.messages import say

Dims = tuple[int, ...]
Shapes = list[Dims] | None
"""Of each tensor of an element, at most; None where that is unknown."""
_MARK = "_tf_stitch_data_set"


def remember_data_sets() -> None:
    """From now on the handle of an iterator knows the data set that it runs through."""
    try:
        from tensorflow.python.data.ops.iterator_ops import OwnedIterator

        create = OwnedIterator._create_iterator
    except (ImportError, AttributeError) as error:
        say(f"this TensorFlow has iterators of an unknown kind, whose first steps may wait for kernels: {error}")
        return

    @functools.wraps(create)
    def _create_iterator(self: Any, dataset: Any) -> None:
        create(self, dataset)
        setattr(self._iterator_resource, _MARK, weakref.ref(self._dataset))

    OwnedIterator._create_iterator = _create_iterator


def largest_elements(handle: Any) -> Shapes:
    """Shapes of what an iterator gives, by its handle."""
    dataset = getattr(handle, _MARK, lambda: None)()
    return None if dataset is None else _of_data_set(dataset)


def _of_data_set(dataset: Any) -> Shapes:
    from tensorflow.python.data.ops.dataset_ops import UnaryUnchangedStructureDataset
    from tensorflow.python.data.util import structure

    known = _whole(structure.get_flat_tensor_shapes(dataset.element_spec))
    if known is not None:
        return known
    if isinstance(dataset, UnaryUnchangedStructureDataset):
        return _of_data_set(dataset._input_dataset)
    of_kind = _KINDS.get(type(dataset).__name__)
    return None if of_kind is None else of_kind(dataset)


def _of_batches(dataset: Any) -> Shapes:
    size, rows = tf.get_static_value(dataset._batch_size), _of_data_set(dataset._input_dataset)
    return None if size is None or rows is None else [(int(size), *row) for row in rows]


def _of_pairs(dataset: Any) -> Shapes:
    parts = [_of_data_set(part) for part in dataset._inputs()]
    return None if None in parts else [dims for part in parts if part is not None for dims in part]


def _of_either(dataset: Any) -> Shapes:
    return _larger(*map(_of_data_set, dataset._inputs()))


def _of_results(dataset: Any) -> Shapes:
    results = _results(dataset)
    return None if results is None else _whole([result.shape for result in results])


def _of_inner_data_sets(dataset: Any) -> Shapes:
    results = _results(dataset)
    return None if results is None else _of_node(results[0].op)


def _results(dataset: Any) -> Sequence[Any] | None:
    """What the function of a data set gives for the largest elements of its input."""
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

    function, taken = dataset._map_func.function, _of_data_set(dataset._input_dataset)
    if taken is None:
        return None
    definition = FunctionDef.FromString(function.function_def.SerializeToString())
    definition.arg_attr.clear()  # shapes that it was traced with, which count more than those that are given
    captured = [tensor.shape for tensor in function.captured_inputs]
    graph = function_def_to_graph(definition, input_shapes=[*map(tf.TensorShape, taken), *captured])
    return list(graph.outputs)


def _of_node(op: Any) -> Shapes:
    """Of a data set that a function makes."""
    if op.type == "Identity":
        return _of_node(op.inputs[0].op)
    if op.type == "ConcatenateDataset":
        return _larger(*(_of_node(tensor.op) for tensor in op.inputs))
    if op.type == "TensorDataset":
        return _whole([tensor.shape for tensor in op.inputs])
    if op.type == "TensorSliceDataset":
        return _whole([tensor.shape[1:] for tensor in op.inputs])
    return None


_KINDS: dict[str, Callable[[Any], Shapes]] = {
    "_BatchDataset": _of_batches, "_ParallelBatchDataset": _of_batches, "_ZipDataset": _of_pairs,
    "_ConcatenateDataset": _of_either, "_MapDataset": _of_results, "_ParallelMapDataset": _of_results,
    "_FlatMapDataset": _of_inner_data_sets,
}


def _larger(a: Shapes, b: Shapes) -> Shapes:
    if a is None or b is None or list(map(len, a)) != list(map(len, b)):
        return None
    return [tuple(max(m, n) for m, n in zip(x, y, strict=True)) for x, y in zip(a, b, strict=True)]


def _whole(shapes: Sequence[Any]) -> Shapes:
    return [tuple(shape) for shape in shapes] if all(shape.is_fully_defined() for shape in shapes) else None
