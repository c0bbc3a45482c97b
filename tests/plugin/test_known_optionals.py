"""Optionals that functions make of values are not asked on a device whether they have one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.data.ops import optional_ops
from tensorflow.python.data.ops.optional_ops import _OptionalImpl
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction

from tf_stitch.plugin import known_optionals

Optional = tf.experimental.Optional
SPEC = tf.TensorSpec([2])


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Optionals that TensorFlow's op was run for."""
    found: list[object] = []
    op = _OptionalImpl.has_value

    def has_value(self: Any, name: str | None = None) -> Any:
        found.append(self)
        return op(self, name)

    monkeypatch.setattr(_OptionalImpl, "has_value", has_value)
    monkeypatch.setattr(ConcreteFunction, "_call_flat", ConcreteFunction._call_flat)
    known_optionals.answer_at_once()
    return found


def made(function: Callable[..., Any], *arguments: object) -> Any:
    return tf.function(function, autograph=False)(*arguments)


def test_a_step_is_not_asked(asked: list[object]) -> None:
    step = tf.function(lambda x: Optional.from_value({"loss": x + 1}))
    for _ in range(2):
        result = step(tf.constant([1.0, 2.0]))
        assert bool(result.has_value())
        assert "CPU" in result.has_value().device
        assert result.get_value()["loss"].numpy().tolist() == [2.0, 3.0]
    assert asked == []


def test_what_may_be_empty_is_asked(asked: list[object]) -> None:
    empty = made(lambda: Optional.empty(SPEC))
    assert not empty.has_value()
    for full in (True, False):
        chosen = made(lambda x, full: tf.cond(full, lambda: Optional.from_value(x), lambda: Optional.empty(SPEC)),
                      tf.constant([1.0, 2.0]), tf.constant(full))
        assert bool(chosen.has_value()) is full
    assert len(asked) == 3


def test_what_iterators_give_is_asked(asked: list[object]) -> None:
    iterator = iter(tf.data.Dataset.from_tensors([1.0, 2.0]))
    assert [bool(made(iterator.get_next_as_optional).has_value()) for _ in range(2)] == [True, False]
    assert len(asked) == 2


def test_within_a_function_it_is_an_op(asked: list[object]) -> None:
    known = made(lambda: Optional.from_value(tf.constant([1.0, 2.0])))
    graph = tf.function(lambda: known.has_value()).get_concrete_function().graph
    assert "OptionalHasValue" in {op.type for op in graph.get_operations()}
    assert asked == [known]


def test_another_tensorflow_asks_as_before(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delattr(optional_ops, "_OptionalImpl")
    call = ConcreteFunction._call_flat
    known_optionals.answer_at_once()
    assert ConcreteFunction._call_flat is call
    assert "Optionals of an unknown kind" in capsys.readouterr().err
