"""Makes the instance of a function for our executor: by a call that is cancelled before it starts."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import cancellation, execute
from tensorflow.python.eager.context import Context

from tf_stitch.plugin.callers_executor import EXECUTOR


class Arguments:
    """What a function was called with. Values are not kept alive for it.

    Args:
        ctx, name, inputs, outputs: of Context.call_function.
    """

    def __init__(self, ctx: Context, name: bytes, inputs: Sequence[Any], outputs: int) -> None:
        self.name = name
        self._ctx, self._outputs, self._options = ctx, outputs, ctx.function_call_options  # of the thread that called
        self._inputs = [(weakref.ref(value), value.dtype, getattr(value, "shape", None),
                         getattr(value, "backing_device", "")) for value in inputs]

    def call(self) -> InstanceCall | None:
        """The call that makes the instance for our executor, with values that live as long as it does; None where a
        variable, or another resource, is gone."""
        inputs = [_or_zeros(*value) for value in self._inputs]
        return None if any(value is None for value in inputs) else \
            InstanceCall(self._ctx, self.name, inputs, self._outputs, self._options)


@dataclass(frozen=True)
class InstanceCall:
    """A call of a function that makes its instance for our executor, and runs nothing.

    Attributes:
        options: of the thread that called the function.
    """

    ctx: Context
    name: bytes
    inputs: Sequence[Any]
    outputs: int
    options: Any

    def __call__(self) -> None:
        """As the function `instantiate`."""
        attributes = self.options.as_attrs() | {"executor_type": EXECUTOR}
        instantiate(self.ctx, self.name, self.inputs, self.outputs, attributes)

    @property
    def is_wanted(self) -> bool:
        """Whether TensorFlow has the function still: nobody misses kernels of one that was dropped."""
        return bool(self.ctx.has_function(self.name))


def _or_zeros(reference: weakref.ref[Any], dtype: Any, shape: Any, device: str) -> Any:
    """A value, or if it was freed, another one of its type there: an instance does not depend on values. None if there
    is no other."""
    value = reference()
    if value is not None or dtype in (tf.resource, tf.variant):
        return value
    with tf.device(device):
        return tf.zeros(shape, dtype) if dtype != tf.string else tf.fill(shape, "")


def instantiate(ctx: Context, name: bytes, inputs: Any, outputs: int, attributes: dict[str, Any]) -> None:
    """Makes the instance of a function that calls with these attributes run, and runs nothing of it.

    Args:
        attributes: of the thread that calls the function, and which executor runs it.

    Raises:
        RuntimeError: TensorFlow ran it all the same.
        OpError: it cannot be instantiated.
    """
    manager = cancellation.CancellationManager()
    manager.start_cancel()
    attrs = tuple(chain(*attributes.items()))
    try:
        execute.execute_with_cancellation(name.decode(), outputs, inputs, attrs, ctx, manager)
    except tf.errors.CancelledError:
        return
    raise RuntimeError("TensorFlow ran a call that was cancelled before")
