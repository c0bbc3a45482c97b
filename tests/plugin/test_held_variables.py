"""Calls of functions by copies that hold their variables."""

from __future__ import annotations

import gc
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.function.polymorphism.function_type import FunctionType
from tensorflow.python.eager.context import Context, context
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction

from tf_stitch.config import load_config
from tf_stitch.native.bindings import OpLibrary, load_op
from tf_stitch.plugin import function_calls
from tf_stitch.plugin.held_variables import LEAST, HeldVariables

ONE: Any


@pytest.fixture(scope="module", autouse=True)
def one() -> None:
    """Not before tests run: see tests/support/workers.py."""
    global ONE
    ONE = tf.constant(1.0)


class Watched:
    """The library, and what it was told."""

    def __init__(self, library: OpLibrary) -> None:
        self._library = library
        self.held: list[tuple[int, int]] = []
        self.released: list[tuple[int, int]] = []

    def hold(self, handles: Sequence[Any], first: int) -> bool:
        self.held.append((first, len(handles)))
        return self._library.hold(handles, first)

    def release(self, first: int, count: int) -> None:
        self.released.append((first, count))
        self._library.release(first, count)


class Calls:
    """Inputs of each call of a function, and who was told of what went wrong."""

    def __init__(self, holder: Watched) -> None:
        self.holder = holder
        self.inputs: list[tuple[str, int]] = []
        self.failed: list[tuple[str, str]] = []

    def of(self, work: Callable[[], Any]) -> list[int]:
        """How many inputs the calls have that it makes."""
        before = len(self.inputs)
        work()
        return [count for _, count in self.inputs[before:]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    seen = Calls(Watched(load_op(load_config().cache_dir)))
    original = Context.call_function

    def call_function(self: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
        seen.inputs.append((name.decode(), len(tensor_inputs)))
        return original(self, name, tensor_inputs, num_outputs)

    patched = ((FunctionType, "__hash__"), (ConcreteFunction, "captured_inputs"), (ConcreteFunction, "_call_flat"))
    for owner, name in patched:
        monkeypatch.setattr(owner, name, owner.__dict__[name])  # brought back afterwards
    monkeypatch.setattr(Context, "call_function", call_function)
    held = HeldVariables(seen.holder, lambda function, error: seen.failed.append((function, str(error))))
    function_calls.shorten(executor=False, held=held)
    return seen


def variables(count: int = 10) -> list[Any]:
    return [tf.Variable(float(i)) for i in range(count)]


def sum_of(weights: list[Any]) -> Any:
    return tf.function(lambda x: x + tf.add_n([w.read_value() for w in weights]))


def test_a_call_has_the_programs_arguments_alone(calls: Calls) -> None:
    weights = variables()
    f = sum_of(weights)
    assert [float(f(ONE)) for _ in range(3)] == [46] * 3
    assert calls.of(lambda: f(ONE)) == [1]
    weights[3].assign(103.0)
    assert float(f(ONE)) == 146
    assert calls.holder.held == [(0, 10)]
    assert not calls.failed


def test_updates_reach_the_variables(calls: Calls) -> None:
    weights = variables()

    @tf.function
    def step(x: Any) -> Any:
        for w in weights:
            w.assign_add(x * w)
        return weights[1] + 0.0

    assert [float(step(ONE)) for _ in range(2)] == [2, 4]
    np.testing.assert_array_equal([w.numpy() for w in weights], np.arange(10) * 4)
    assert calls.inputs[-1][1] == 1


def test_few_variables_are_passed(calls: Calls) -> None:
    f = sum_of(variables(LEAST - 1))
    assert calls.of(lambda: f(ONE)) == [LEAST]


def test_what_is_captured_beside_is_passed(calls: Calls) -> None:
    weights, keys = variables(), tf.constant([1, 2])
    initializer = tf.lookup.KeyValueTensorInitializer(keys, keys * 10)
    table = tf.lookup.StaticHashTable(initializer, 0)
    factor = tf.constant(2.0)

    @tf.function
    def f(x: Any, key: Any) -> Any:
        return factor * (x + tf.add_n([w.read_value() for w in weights])), table.lookup(key)

    total, found = f(ONE, tf.constant(2))
    assert (float(total), int(found)) == (92, 20)
    assert calls.inputs[-1][1] == 5, "with the table's default"


def test_variables_among_the_arguments_stay_arguments(calls: Calls) -> None:
    weights, given = variables(), tf.Variable(100.0)
    f = tf.function(lambda v, x: v + x + tf.add_n([w.read_value() for w in weights]))
    assert float(f(given, ONE)) == 146
    assert calls.inputs[-1][1] == 2
    assert float(f(weights[9], ONE)) == 55, "one that is captured as well"


@pytest.mark.parametrize("persistent", [False, True])
def test_gradients_of_a_call(calls: Calls, persistent: bool) -> None:
    """TensorFlow's function is called under a tape, and the copy behind it."""
    weights = variables()
    f = tf.function(lambda x: x * tf.add_n([w * w for w in weights]))
    f(ONE)
    for _ in range(2):
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(ONE)
            y = f(ONE)
        found = tape.gradient(y, [ONE, *weights])
        assert [float(g) for g in found] == [285, *(2.0 * i for i in range(10))]
    assert calls.of(lambda: f(ONE)) == [1]


def test_forward_gradients(calls: Calls) -> None:
    weights = variables()
    f = tf.function(lambda x: x * tf.add_n([w.read_value() for w in weights]))
    f(ONE)
    with tf.autodiff.ForwardAccumulator(ONE, tf.constant(2.0)) as forward:
        y = f(ONE)
    assert float(forward.jvp(y)) == 90


def test_functions_that_call_it(calls: Calls) -> None:
    weights = variables()
    inner = sum_of(weights)
    inner(ONE)
    outer = tf.function(lambda x: 2.0 * inner(x))
    assert float(outer(ONE)) == 92
    assert calls.of(lambda: outer(ONE)) == [1]
    outer_loop = tf.function(lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, inner(y)), [0, x])[1])
    assert float(outer_loop(ONE)) == 136
    branch = tf.function(lambda x: tf.cond(x > 0.0, lambda: inner(x), lambda: -inner(x)))
    assert (float(branch(ONE)), float(branch(-ONE))) == (46, -44)


def test_other_captures_are_seen(calls: Calls) -> None:
    one, two = variables(), [tf.Variable(7.0) for _ in range(10)]
    concrete = sum_of(one).get_concrete_function(tf.TensorSpec([]))
    assert [float(concrete(ONE)) for _ in range(2)] == [46, 46]
    concrete.set_external_captures([v.handle for v in two])
    assert [float(concrete(ONE)) for _ in range(2)] == [71, 71]
    concrete.set_external_captures([v.handle for v in one])
    assert float(concrete(ONE)) == 46
    assert calls.inputs[-1][1] == 1


def test_values_of_each_call_are_passed(calls: Calls) -> None:
    """What is captured beside variables may be another tensor in each call, as keys of collectives are."""
    weights = variables()

    @tf.function
    def f(x: Any) -> Any:
        key = tf.compat.v1.get_default_graph().capture_call_time_value(lambda: tf.constant(float(len(calls.inputs))),
                                                                       tf.TensorSpec([]))
        return x * 0.0 + key + tf.add_n([w.read_value() for w in weights])

    results = [float(f(ONE)) for _ in range(6)]
    assert np.ptp(np.diff(results)) == 0
    assert np.diff(results)[0] == 1
    assert len(calls.holder.held) == 1
    assert len({name for name, _ in calls.inputs[1:]}) == 1


def test_a_function_that_never_captures_the_same_is_given_up(calls: Calls) -> None:
    one, two = variables(), [tf.Variable(7.0) for _ in range(10)]
    concrete = sum_of(one).get_concrete_function(tf.TensorSpec([]))
    for i in range(12):
        concrete.set_external_captures([v.handle for v in (one, two)[i % 2]])
        assert float(concrete(ONE)) == (46, 71)[i % 2]
    assert len(calls.holder.held) == 4
    assert calls.inputs[-1][1] == 11
    assert [why for _, why in calls.failed] == ["it captured other ones 4 times"]


def test_what_is_freed(calls: Calls) -> None:
    weights = variables()
    f = sum_of(weights)
    f(ONE)
    copy = calls.inputs[-1][0]
    assert context().has_function(copy)
    del f
    gc.collect()
    assert calls.holder.released == [(0, 10)]
    assert not context().has_function(copy)


def test_errors_are_those_of_the_programs_function(calls: Calls) -> None:
    weights = variables()

    @tf.function
    def f(x: Any) -> Any:
        total = x + tf.add_n([w.read_value() for w in weights])
        return tf.debugging.check_numerics(total / (x - x), "divided")

    line = f.python_function.__code__.co_firstlineno + 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="divided") as raised:
        f(ONE)
    said = str(raised.value)
    assert f"test_held_variables.py\", line {line}, in f" in said
    assert "tf_stitch_held" not in said
    assert "[Op:__inference_f_" in said
    assert "tf_stitch_held" in calls.inputs[-1][0], "the copy was called"


def test_functions_that_others_stand_for(calls: Calls) -> None:
    """XLA compiles them; a variable by name may be deleted."""
    weights = variables()
    compiled = tf.function(lambda x: x + tf.add_n([w.read_value() for w in weights]), jit_compile=True)
    assert float(compiled(ONE)) == 46
    assert calls.inputs[-1][1] == 11
    named = [tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name=f"named{i}") for i in range(10)]
    for handle in named:
        handle._handle_data = weights[0].handle._handle_data  # as TensorFlow 1's variables have it
        tf.raw_ops.AssignVariableOp(resource=handle, value=ONE)
    f = tf.function(lambda x: x + tf.add_n([tf.raw_ops.ReadVariableOp(resource=h, dtype=tf.float32) for h in named]))
    assert float(f(ONE)) == 11
    assert calls.inputs[-1][1] == 11
    assert len(calls.holder.held) == len(calls.holder.released)
    assert ["by its name" in why for _, why in calls.failed] == [True]


def test_functions_that_other_processes_may_run(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    f = sum_of(variables())
    with monkeypatch.context() as patch:
        patch.setattr(Context, "get_server_def", lambda self: "a cluster")
        assert float(f(ONE)) == 46
        assert calls.inputs[-1][1] == 11
    assert calls.of(lambda: f(ONE)) == [1]


def test_what_fails_is_said_and_tensorflows_is_called(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    f = sum_of(variables())

    def broken(handles: Sequence[Any], first: int) -> bool:
        raise MemoryError("no room")

    monkeypatch.setattr(calls.holder, "hold", broken)
    assert [float(f(ONE)) for _ in range(2)] == [46, 46]
    assert calls.inputs[-1][1] == 11
    assert len(calls.failed) == 1
    assert calls.failed[0][0].startswith("__inference_")
    assert calls.failed[0][1] == "no room"
    assert calls.holder.released == [(0, 10)]


def test_threads_call_at_once(calls: Calls) -> None:
    f = sum_of(variables())
    f.get_concrete_function(ONE)
    barrier, results = threading.Barrier(8), []

    def work() -> None:
        barrier.wait()
        results.extend(float(f(ONE)) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [46] * 40
    gc.collect()
    assert len(calls.holder.held) - len(calls.holder.released) == 1, "one copy is left"
    assert not calls.failed


def test_what_is_saved_has_none_of_it(calls: Calls) -> None:
    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = variables()

        @tf.function(input_signature=[tf.TensorSpec([])])
        def __call__(self, x: Any) -> Any:
            return x + tf.add_n([w.read_value() for w in self.weights])

    model = Model()
    assert float(model(ONE)) == 46
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(model, folder)
        with open(f"{folder}/saved_model.pb", "rb") as file:
            assert b"StitchHandle" not in file.read()
        loaded = tf.saved_model.load(folder)
        assert [float(loaded(ONE)) for _ in range(2)] == [46, 46]
        assert calls.inputs[-1][1] == 1


def test_keras(calls: Calls) -> None:
    """fit, evaluate and predict: with the iterator as the only argument."""
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, "tanh") for _ in range(4)] + [tf.keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    x, y = np.ones((32, 3), np.float32), np.ones((32, 1), np.float32)
    assert max(calls.of(lambda: model.fit(x, y, epochs=2, batch_size=8, verbose=0))) == 1
    losses = model.evaluate(x, y, verbose=0), float(np.mean((model.predict(x, verbose=0) - 1) ** 2))
    np.testing.assert_allclose(*losses, rtol=1e-5)
