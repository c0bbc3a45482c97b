"""What a call of a function does in Python, with and without function_calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.function.polymorphism.function_type import FunctionType
from tensorflow.python.eager.context import Context, context
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework.tensor import DenseSpec

from tf_stitch.config import load_config
from tf_stitch.native.bindings import load_op
from tf_stitch.plugin import function_calls
from tf_stitch.plugin.callers_executor import EXECUTOR
from tf_stitch.plugin.measured_thread import THREAD


@pytest.fixture(autouse=True)
def shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    load_op(load_config().cache_dir)  # the executor is there
    for owner, name in ((FunctionType, "__hash__"), (ConcreteFunction, "captured_inputs"), (Context, "call_function")):
        monkeypatch.setattr(owner, name, owner.__dict__[name])  # brought back afterwards
    function_calls.shorten(executor=True)


def function_of(weights: list[Any]) -> Any:
    return tf.function(lambda x: x + tf.add_n(weights))


def count(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, work: Callable[[], Any]) -> int:
    calls = 0
    original = owner.__dict__[name]

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, counted)
        work()
    return calls


def test_what_is_captured_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [tf.Variable(1.0) for _ in range(50)]
    f, x = function_of(weights), tf.constant(0.0)
    assert float(f(x)) == 50
    assert count(monkeypatch, DenseSpec, "__hash__", lambda: f(x)) < 10
    monkeypatch.setattr(FunctionType, "__hash__", FunctionType.__hash__.__wrapped__)
    assert count(monkeypatch, DenseSpec, "__hash__", lambda: f(x)) >= 50, "TensorFlow keeps it by itself"


def test_calls_that_are_measured_by_tensorflows_graph_hash_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it would have taken is what is asked for."""
    weights = [tf.Variable(1.0) for _ in range(50)]
    f, x = function_of(weights), tf.constant(0.0)
    assert float(f(x)) == 50
    monkeypatch.setattr(THREAD, "long", True)
    assert count(monkeypatch, DenseSpec, "__hash__", lambda: f(x)) >= 50


def test_types_are_told_apart() -> None:
    weight = tf.Variable(1.0)
    f = function_of([weight])
    for x in (tf.constant(1.0), tf.constant([1.0]), tf.constant([1.0, 2.0]), tf.constant(2.0)):
        assert f(x).shape == x.shape
    assert f.experimental_get_tracing_count() == 3


def test_other_captures_are_seen() -> None:
    one, two = tf.Variable(1.0), tf.Variable(2.0)
    concrete = function_of([one]).get_concrete_function(tf.TensorSpec([]))
    zero = tf.constant(0.0)
    assert [float(concrete(zero)) for _ in range(3)] == [1, 1, 1]
    concrete.set_external_captures([two.handle])
    assert [float(concrete(zero)) for _ in range(3)] == [2, 2, 2]
    concrete._captured_inputs[0] = one.handle
    assert [float(concrete(zero)) for _ in range(3)] == [1, 1, 1]
    one.assign(5.0)
    assert float(concrete(zero)) == 5
    concrete._captured_inputs[0] = lambda: two.handle  # computed for each call
    assert [float(concrete(zero)) for _ in range(3)] == [2, 2, 2]
    assert concrete.captured_inputs[0] is two.handle


def executors(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> set[str]:
    """Those that functions are called with."""
    from tensorflow.python.eager import execute

    seen = set()
    original = execute.execute

    def seeing(*args: Any, **kwargs: Any) -> Any:
        attrs = kwargs["attrs"]
        seen.add(attrs[attrs.index("executor_type") + 1])
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(execute, "execute", seeing)
        work()
    return seen


def test_the_executor_is_asked_for_in_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    f = function_of([tf.Variable(1.0)])
    x = tf.constant(1.0)
    assert executors(monkeypatch, lambda: f(x)) == {EXECUTOR}
    assert context().function_call_options.executor_type is None
    with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
        assert executors(monkeypatch, lambda: f(x)) == {"SINGLE_THREADED_EXECUTOR"}


def test_errors_pass() -> None:
    @tf.function
    def f(x: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_positive(x, "must be positive")
        return x

    assert float(f(tf.constant(1.0))) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive"):
        f(tf.constant(-1.0))
    assert context().function_call_options.executor_type is None


def test_a_tensorflow_that_calls_otherwise_is_left_alone(monkeypatch: pytest.MonkeyPatch,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    hashed = FunctionType.__hash__
    monkeypatch.delattr(Context, "call_function")
    function_calls.shorten(executor=True)
    assert FunctionType.__hash__ is hashed
    assert "stays as it is" in capsys.readouterr().err
