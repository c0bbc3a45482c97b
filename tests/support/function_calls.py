"""Functions as TensorFlow's eager context is asked to run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager.context import Context, context

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
