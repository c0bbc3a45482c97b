"""A pytest plugin in whose session each of Keras' ops is a graph: tests that call ops eagerly then run compiled code.

What Keras' TensorFlow backend computes with is wrapped (the functions of its numpy, linalg, math, nn and image): a call
that is eager traces a tf.function of its own, whose inputs are the call's tensors and arrays, and those that sparse
tensors hold.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

_BACKEND = "keras.src.backend.tensorflow"
_MODULES = ("numpy", "linalg", "math", "nn", "image")


def pytest_sessionstart(session: pytest.Session) -> None:
    importlib.import_module("keras")
    for name in _MODULES:
        wrap_functions(importlib.import_module(f"{_BACKEND}.{name}"))


def wrap_functions(module: ModuleType) -> None:
    """Wraps the public functions that a module defines."""
    for name, value in list(vars(module).items()):
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            setattr(module, name, as_graph(value))


def as_graph(op: Callable[..., Any]) -> Callable[..., Any]:
    """An op that traces a graph in each eager call of it. Arrays become inputs as tensors do, and so do indices and
    values of sparse tensors; numbers and shapes stay constants. What a call returns that is no tensor, it returns as it
    is."""

    @functools.wraps(op)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not tf.executing_eagerly():
            return op(*args, **kwargs)
        given = [_input(value) for value in tf.nest.flatten((args, kwargs))]
        results: list[Any] = []

        def traced(*tensors: Any) -> list[Any]:
            positional, named = tf.nest.pack_sequence_as((args, kwargs), _placed(given, tensors))
            results.append(op(*positional, **named))
            return _tensors(tf.nest.flatten(results[0]), with_shapes=True)

        tensors = tf.function(traced, autograph=False)(*_tensors(given))
        return tf.nest.pack_sequence_as(results[0], _placed(tf.nest.flatten(results[0]), tensors, with_shapes=True))

    return call


def _input(value: Any) -> Any:
    return tf.constant(value) if isinstance(value, np.ndarray) and value.dtype != object else value


def _tensors(values: Iterable[Any], with_shapes: bool = False) -> list[Any]:
    """Those among the values, and those that sparse ones hold."""
    return [part for value in values for part in _parts(value, with_shapes)]


def _placed(values: Sequence[Any], tensors: Iterable[Any], with_shapes: bool = False) -> list[Any]:
    """The values, with these tensors for theirs."""
    rest = iter(tensors)
    return [_with(value, [next(rest) for _ in _parts(value, with_shapes)]) for value in values]


def _parts(value: Any, with_shape: bool) -> list[Any]:
    match value:
        case tf.IndexedSlices() | tf.SparseTensor():
            shape = [] if value.dense_shape is None or not with_shape else [value.dense_shape]
            return [tf.convert_to_tensor(part) for part in (value.indices, value.values, *shape)]
        case tf.Tensor() | tf.RaggedTensor():
            return [value]
    return []


def _with(value: Any, parts: Sequence[Any]) -> Any:
    match value:
        case tf.IndexedSlices():
            indices, values, *shape = parts
            known = [] if value.dense_shape is None else [tf.convert_to_tensor(value.dense_shape)]
            return tf.IndexedSlices(values, indices, *(shape or known))  # no tuple, which a graph does not take
        case tf.SparseTensor():
            indices, values, *shape = parts
            return tf.SparseTensor(indices, values, *(shape or [value.dense_shape]))
    return parts[0] if parts else value
