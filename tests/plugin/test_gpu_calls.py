"""Whether GPUs have room for TensorFlow's graph of a function: it is looked at before the function's first call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.eager.context import Context, context

from tf_stitch.config import load_config
from tf_stitch.native.bindings import DeviceMemory
from tf_stitch.plugin import gpu_calls, graph_hook, graph_memory
from tf_stitch.plugin.element_shapes import remember_data_sets
from tf_stitch.plugin.function_definition import FunctionDefinition

NEEDED = 3 * 4 * 1024 + 4
"""Bytes that `graph` takes for 1024 numbers: the first result, two values of the chain, and a constant."""
LARGE = 1 << 40
"""Bytes of a GPU."""
rewritten: list[str] = []


class NotCalled(Exception):
    """In place of a call."""


def graph(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.sin(x), tf.cumsum(tf.cumsum(tf.cumsum(x)))


@pytest.fixture(autouse=True)
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """There is no GPU: nodes count where they are."""
    def on_gpus(graph_def: Any, types: Any, sizes: Any) -> int | None:
        for node in graph_def.node:
            node.device = node.device.replace("CPU:", "GPU:")
        return graph_memory.live_bytes(graph_def, types, sizes)

    def optimize(item: Any) -> None:
        rewritten.append(item.graph_id)

    graph_hook.install(optimize, lambda error: pytest.fail(str(error)), load_config().cache_dir)
    monkeypatch.setattr(gpu_calls, "live_bytes", on_gpus)
    rewritten.clear()
    yield
    graph_hook.install(lambda item: None, lambda error: None, load_config().cache_dir)


def has_room(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], *arguments: Any, free: int | None) -> bool:
    """Of a call that is not made. `free`: None is what devices say."""
    if free is not None:
        memory = [DeviceMemory(0, LARGE), DeviceMemory(LARGE - free, LARGE)]
        monkeypatch.setattr(gpu_calls, "gpu_memory", lambda ctx: memory)
    found: list[bool] = []

    def call_function(ctx: Context, name: bytes, inputs: Any, outputs: int) -> None:
        found.append(gpu_calls.has_room(ctx, FunctionDefinition(ctx, name), name, inputs, outputs))
        raise NotCalled

    with monkeypatch.context() as patch:
        patch.setattr(Context, "call_function", call_function)
        with pytest.raises(NotCalled):
            function(*arguments)
    return found[0]


@pytest.mark.parametrize(("free", "expected"), [(2 * NEEDED, True), (2 * NEEDED - 1, False)])
@pytest.mark.parametrize("shape", [[1024], [None]])
def test_what_is_alive_may_take_half_of_what_is_free(monkeypatch: pytest.MonkeyPatch, free: int, expected: bool,
                                                     shape: list[int | None]) -> None:
    function = tf.function(graph, input_signature=[tf.TensorSpec(shape, tf.float32)])
    assert has_room(monkeypatch, function, tf.ones([1024]), free=free) is expected
    assert not rewritten


@pytest.mark.parametrize(("limit", "expected"), [(64 * NEEDED, True), (64 * NEEDED - 1, False)])
def test_what_is_alive_may_take_a_sixty_fourth_of_a_gpu(monkeypatch: pytest.MonkeyPatch, limit: int, expected: bool
                                                        ) -> None:
    """Whatever is free: a program's most is TensorFlow's then, where that is more than kernels take."""
    monkeypatch.setattr(gpu_calls, "gpu_memory", lambda ctx: [DeviceMemory(0, limit), DeviceMemory(0, LARGE)])
    assert has_room(monkeypatch, tf.function(graph), tf.ones([1024]), free=None) is expected


def test_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = tf.Variable(0.0)

    @tf.function
    def count(x: tf.Tensor) -> tf.Tensor:
        return counter.assign_add(tf.reduce_sum(tf.tanh(tf.exp(x))))

    assert has_room(monkeypatch, count, tf.zeros([8]), free=1 << 20)
    assert counter.numpy() == 0


@pytest.mark.parametrize("remembered", [True, False])
def test_batches_of_a_data_set_may_be_of_any_size(monkeypatch: pytest.MonkeyPatch, remembered: bool) -> None:
    """Where it is not known what they are of."""
    monkeypatch.setattr(OwnedIterator, "_create_iterator", OwnedIterator._create_iterator)
    if remembered:
        remember_data_sets()

    def of_batches(remainder: bool) -> bool:
        batches = iter(tf.data.Dataset.from_tensor_slices(tf.ones([8, 1024])).batch(4, drop_remainder=not remainder))
        return has_room(monkeypatch, tf.function(lambda source: graph(next(source))), batches, free=1 << 30)

    assert of_batches(remainder=False)
    assert of_batches(remainder=True) is remembered


def test_a_step_of_fit_takes_about_what_one_of_whole_batches_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last batch of the first is smaller, so no number of rows is known, and less of the graph is folded."""
    monkeypatch.setattr(OwnedIterator, "_create_iterator", OwnedIterator._create_iterator)
    remember_data_sets()
    layer, taken = tf.keras.layers, []
    for rows in (40, 48):
        model = tf.keras.Sequential([layer.Conv2D(4, 3, activation="relu"), layer.BatchNormalization(), layer.Flatten(),
                                     layer.LayerNormalization(), layer.Dropout(0.1), layer.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
        model(tf.ones([1, 8, 8, 2]))
        model.optimizer.build(model.trainable_variables)
        sizes: list[int | None] = []
        estimate = gpu_calls.live_bytes
        with monkeypatch.context() as patch:
            patch.setattr(gpu_calls, "live_bytes", lambda *of: sizes.append(estimate(*of)) or sizes[-1])  # noqa: B023
            x, target = np.ones([rows, 8, 8, 2], np.float32), np.ones([rows, 1], np.float32)
            assert has_room(monkeypatch, lambda: model.fit(x, target, batch_size=16, verbose=0),  # noqa: B023
                            free=1 << 30)
        taken.append(sizes[-1])
    assert taken[1] <= taken[0] <= 1.25 * taken[1]


def test_what_cannot_be_made_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its call says what is wrong."""
    def fail(*_: Any) -> None:
        raise tf.errors.InvalidArgumentError(None, None, "bad")

    monkeypatch.setattr(gpu_calls, "instantiate", fail)
    assert not has_room(monkeypatch, tf.function(graph), tf.ones([8]), free=1 << 30)


def test_where_gpus_cannot_be_asked_first_calls_wait(monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pywrap_tf_session, "TF_DeviceListMemoryBytes", None)
    monkeypatch.setattr(pywrap_tfe, "TF_DeviceListType", lambda devices, i: "GPU")
    monkeypatch.setattr(Context, "get_memory_info", lambda self, name: {"current": 0})
    assert not has_room(monkeypatch, tf.function(graph), tf.ones([8]), free=None)
    assert "a first call waits for its kernels" in capsys.readouterr().err


def test_what_cannot_be_looked_at_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Exception] = []
    graph_hook.install(lambda item: None, said.append, load_config().cache_dir)
    monkeypatch.setattr(gpu_calls, "live_bytes", lambda *_: 1 // 0)
    assert not has_room(monkeypatch, tf.function(graph), tf.ones([8]), free=1 << 30)
    assert isinstance(said[0], ZeroDivisionError)


def test_every_gpu_is_asked_for_what_is_free() -> None:
    found = gpu_calls.gpu_memory(context())
    assert len(found) == len(tf.config.list_logical_devices("GPU"))
    assert all(memory.limit > memory.in_use for memory in found)
