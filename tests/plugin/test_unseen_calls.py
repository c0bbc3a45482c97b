"""Calls that nobody sees: which functions can be called so, and what they get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager.context import context

from tf_stitch.plugin import unseen_calls
from tf_stitch.plugin.function_definition import FunctionDefinition
from tf_stitch.plugin.unseen_calls import why_seen, with_copies, writes

SEEN = "it reads a data set, a table or another resource"
X: Any


@pytest.fixture(scope="module", autouse=True)
def x() -> None:
    """Not before tests run: see tests/support/workers.py."""
    global X
    X = tf.constant([1.0, 2.0])


def traced(function: Callable[..., Any], **options: Any) -> tuple[FunctionDefinition, list[Any], Any]:
    concrete = tf.function(function, **options).get_concrete_function(X)
    definition = FunctionDefinition(context(), concrete._inference_function.name)
    return definition, [X, *concrete.captured_inputs], concrete


def why(function: Callable[..., Any], **options: Any) -> str:
    return why_seen(*traced(function, **options)[:2])


def test_what_only_computes_is_unseen() -> None:
    variable, generator = tf.Variable([1.0, 2.0]), tf.random.Generator.from_seed(1)
    inner = tf.function(lambda x: x * variable)
    for function in (lambda x: tf.nn.softmax(x), lambda x: variable.assign_add(inner(x)),
                     lambda x: x + tf.random.normal([2]), lambda x: x + generator.normal([2]),
                     lambda x: tf.while_loop(lambda y: y[0] < 9.0, lambda y: y + 1.0, [x]),
                     lambda x: tf.cond(x[0] > 0.0, lambda: variable.assign(x), lambda: variable.assign(-x))):
        assert why(function) == ""


def test_effects_are_seen() -> None:
    iterator = iter(tf.data.Dataset.range(3))
    assert why(lambda x: x + tf.cast(next(iterator), tf.float32)) == SEEN
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), 0)
    assert why(lambda x: table.lookup(tf.cast(x, tf.int32))) == SEEN

    def printed(x: tf.Tensor) -> tf.Tensor:
        tf.print(x)
        return x

    assert why(printed) == "PrintV2 has effects that cannot be undone"
    assert why(lambda x: tf.py_function(lambda y: y, [x], tf.float32)) == (
        "EagerPyFunc has effects that cannot be undone")
    assert why(lambda x: x + 1.0, jit_compile=True) == "XLA compiles it"


def test_copies_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    variable = tf.Variable(tf.zeros([1 << 20]))
    monkeypatch.setattr(unseen_calls, "_MOST_BYTES", 1 << 20)
    assert why(lambda x: variable.assign_add(variable * x[0])) == "copies of its variables would take too much memory"
    assert why(lambda x: variable * x[0]) == "", "it takes no copies of what it only reads"


def test_updates_are_made_to_copies() -> None:
    variable = tf.Variable([1.0, 2.0])
    definition, inputs, concrete = traced(lambda x: variable.assign_add(x))
    assert writes(definition.functions)
    given = with_copies(inputs)
    assert concrete._call_flat(given[:1], given[1:]).numpy().tolist() == [2.0, 4.0]
    assert variable.numpy().tolist() == [1.0, 2.0]
    assert not writes(traced(lambda x: variable + x)[0].functions)
