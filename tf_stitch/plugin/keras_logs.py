"""Keras' `fit` and `evaluate` read a step's losses for their callbacks when the next step has been asked for.

With TensorFlow Keras 3 makes Python floats of each step's losses before it asks for the next step, whether a callback
looks at them or not: the device then waits for the host's work, the host for the device's. Measured on an H200,
ResNet-50 of 32 images: 9.3 of a step's 14.5 ms were spent reading the loss, 4.8 asking for the step. Where no callback
does more at the end of a batch than show or count, they hear of a step one step later, and of the last one before the
epoch ends. A thread reads the losses meanwhile, and begins before the next step is asked for: TensorFlow's copy to the
host waits for all that the device has been given when it begins.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import ModuleType
from typing import Any

from tf_stitch.messages import say
from tf_stitch.plugin.post_import import after_import

MODULE = "keras.src.callbacks.callback_list"
_LATER = "_tf_stitch_later"
"""Attribute of a list of callbacks: what they have yet to hear."""
_ENDS = {"on_train_batch_end": ("on_batch_end", "on_train_batch_end"), "on_test_batch_end": ("on_test_batch_end",)}
"""Method of the list -> those of a callback that it calls."""
_BEFORE = ("on_epoch_end", "on_train_end", "on_test_begin", "on_test_end")
"""What callbacks hear after all batches before it."""


def hear_later_on_gpus() -> None:
    """On GPUs, whether Keras has been imported or will be."""
    after_import(MODULE, _patch)


def _patch(module: ModuleType) -> None:
    callbacks = getattr(module, "CallbackList", None)
    names = (*_ENDS, *_BEFORE)
    if all(hasattr(callbacks, name) for name in names):
        hear_later(callbacks)
    else:
        say("this Keras has lists of callbacks of an unknown kind: they hear of each step before the next is asked for")


def hear_later(callbacks: Any) -> None:
    """Changes Keras' class of lists of callbacks."""
    for name, methods in _ENDS.items():
        setattr(callbacks, name, _later(getattr(callbacks, name), methods))
    for name in _BEFORE:
        setattr(callbacks, name, _behind_all(getattr(callbacks, name)))


class _Later:
    """The call that is still to be made, when its losses are there: at most one, as all that is not a batch's end waits
    for it."""

    def __init__(self) -> None:
        self._reader: ThreadPoolExecutor | None = None
        self._call: tuple[Callable[[Any], None], Future[Any]] | None = None

    def read(self, call: Callable[[Any], None], logs: Any) -> None:
        """Begins to make numbers of losses, for a call."""
        from keras.src.utils.python_utils import pythonify_logs

        self._reader = self._reader or ThreadPoolExecutor(1, "tf_stitch_losses")
        self._call = call, self._reader.submit(pythonify_logs, logs)

    def make(self) -> None:
        """Makes the call, if there is one."""
        made, self._call = self._call, None
        if made is not None:
            call, losses = made
            call(losses.result())

    def end(self) -> None:
        """As `make`. The thread ends, too: it would not outlive a fork."""
        try:
            self.make()
        finally:
            if self._reader is not None:
                self._reader.shutdown()
                self._reader = None


def _later(end: Callable[..., None], methods: tuple[str, ...]) -> Callable[..., None]:
    @functools.wraps(end)
    def wrapper(self: Any, batch: Any, logs: Any = None) -> None:
        if not _has_gpu():
            end(self, batch, logs)
            return
        later = self.__dict__.setdefault(_LATER, _Later())
        later.make()
        if all(_may_hear_later(callback, methods) for callback in self.callbacks):
            later.read(functools.partial(end, self, batch), logs)
        else:
            end(self, batch, logs)

    return wrapper


def _behind_all(event: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(event)
    def wrapper(self: Any, *arguments: Any, **named: Any) -> None:
        if _LATER in self.__dict__:
            self.__dict__[_LATER].end()
        event(self, *arguments, **named)

    return wrapper


@functools.cache
def _has_gpu() -> bool:
    """Asked when a step has run, not at import: TensorFlow initializes CUDA to answer, and a process that is forked
    after that cannot use a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


def _may_hear_later(callback: Any, methods: tuple[str, ...]) -> bool:
    """Whether a callback does nothing at the end of a batch, says that a thread may do it, or is one of Keras' that
    show or count."""
    from keras import callbacks
    from keras.src.utils.python_utils import is_default

    if getattr(callback, "async_safe", False) or type(callback) is callbacks.ProgbarLogger:
        return True
    if type(callback) is callbacks.ModelCheckpoint and callback.save_freq == "epoch":
        return True
    return all(is_default(getattr(callback, method)) for method in methods)
