"""Which functions may have two instances, and that making the second runs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager.context import Context, context

from tf_stitch.config import load_config
from tf_stitch.native.bindings import load_op
from tf_stitch.plugin import graph_hook
from tf_stitch.plugin.first_calls import FirstCalls, instantiate, may_wait


@pytest.fixture(autouse=True, scope="module")
def executor() -> None:
    load_op(load_config().cache_dir)


KEPT = []  # TensorFlow removes functions that nobody holds


def call_of(function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """What Context.call_function gets where a function is called."""
    calls: list[Any] = []
    KEPT.append(function)
    with pytest.MonkeyPatch.context() as patch:
        original = Context.call_function
        patch.setattr(Context, "call_function", lambda self, *call: calls.append(call) or original(self, *call))
        function(*arguments)
    name, inputs, outputs = calls[-1]
    return context(), name, inputs, outputs


def counting(counter: tf.Variable) -> Any:
    @tf.function
    def count(x: Any) -> Any:
        counter.assign_add(1)
        return x + 1

    return count


def state_of_a_variable(x: Any) -> Any:
    return tf.map_fn(lambda row: row * 2, x)


def seeded(x: Any) -> Any:
    return x + tf.random.uniform(tf.shape(x), seed=3)


def in_a_loop(x: Any) -> Any:
    return tf.map_fn(lambda row: row + tf.random.uniform([], seed=3), x)


def unseeded(x: Any) -> Any:
    return x + tf.random.uniform(tf.shape(x))


@pytest.mark.parametrize(("body", "may"), [(state_of_a_variable, True), (seeded, False), (in_a_loop, False),
                                           (unseeded, True)])
def test_a_kernels_own_state_does_not_wait(body: Callable[..., Any], may: bool) -> None:
    tf.random.set_seed(None)  # which other tests set: then no op is without a seed
    ctx, name, *_ = call_of(tf.function(body), tf.constant([1.0, 2.0]))
    assert may_wait(ctx, name) == may


def test_variables_may_wait_and_what_xla_compiles_may_not() -> None:
    x, counter = tf.constant([1.0]), tf.Variable(0)
    assert may_wait(*call_of(counting(counter), x)[:2])
    compiled = tf.function(lambda x: x + 1, jit_compile=True)
    assert not may_wait(context(), compiled.get_concrete_function(x).name)


def test_an_instance_is_made_and_nothing_runs() -> None:
    counter = tf.Variable(0)
    ctx, *call = call_of(counting(counter), tf.constant([1.0]))
    assert counter.numpy() == 1
    instantiate(ctx, *call, ctx.function_call_options.as_attrs())
    assert counter.numpy() == 1


def test_the_second_call_begins_and_our_executor_comes_when_all_is_built() -> None:
    counter, work, built, executors = tf.Variable(0), [], [], []
    ctx, name, inputs, outputs = call_of(counting(counter), tf.constant([1.0]))
    calls = FirstCalls(lambda job: work.append(job) or True, built.append, lambda graph, error: pytest.fail(str(error)))

    def call() -> None:
        calls.call(lambda ctx, *call: executors.append(ctx.function_call_options.executor_type), ctx, name, inputs,
                   outputs)

    call()
    assert not work
    assert calls.began(name.decode())
    call()
    call()
    assert len(work) == 1
    assert not calls.is_over(name)
    assert calls.waiting == 1
    work[0]()
    assert built == [name.decode()]
    assert calls.is_over(name)
    assert calls.waiting == 0
    assert executors == [None] * 3
    assert counter.numpy() == 1


def test_what_cannot_be_built_stays_tensorflows() -> None:
    failed, work = [], []
    ctx, name, *call = call_of(counting(tf.Variable(0)), tf.constant([1.0]))

    def build(graph: str) -> None:
        raise ValueError("no")

    calls = FirstCalls(lambda job: work.append(job) or True, build, lambda graph, error: failed.append(str(error)))
    for _ in range(3):
        calls.call(lambda *_: None, ctx, name, *call)
    work[0]()
    calls.call(lambda *_: None, ctx, name, *call)
    assert failed == ["no"]
    assert len(work) == 1
    assert not calls.is_over(name)


def test_excluded_functions_are_no_first_calls() -> None:
    ctx, name, *call = call_of(counting(tf.Variable(0)), tf.constant([1.0]))
    calls = FirstCalls(lambda job: True, lambda graph: None, lambda graph, error: None)
    with graph_hook.suspended():
        calls.call(lambda *_: None, ctx, name, *call)
    assert calls.is_over(name)
    assert not calls.began(name.decode())
