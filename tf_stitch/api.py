"""What a program or a notebook calls. Each function imports TensorFlow only when it needs it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from tf_stitch.config import load_config
from tf_stitch.graph.clustering.exclusion import SCOPE
from tf_stitch.plugin.installed_tensorflow import find_tensorflow

if TYPE_CHECKING:
    from tf_stitch.report.last_report import LastReport

_P = ParamSpec("_P")
_R = TypeVar("_R")


def enable() -> None:
    """Stitches functions from now on, whatever TF_STITCH says; the other TF_STITCH_* variables count.

    A function whose shapes TensorFlow has run before stays as it is: TensorFlow optimizes each once. The first call in
    a process loads the native op, and builds it where that was not done before.

    Raises:
        ConfigError: a TF_STITCH_* variable that is not allowed.
        NativeError: the native libraries cannot be built or loaded.
        TensorFlowError: there is no TensorFlow, or one that is too old.
    """
    if "tensorflow" not in sys.modules:
        find_tensorflow()
    config = load_config()
    from tf_stitch.plugin import activation, graph_hook

    activation.enable(replace(config, enabled=True))
    graph_hook.switch(True)


def disable() -> None:
    """Leaves functions that run for the first time from now on to TensorFlow. Those that are stitched stay that."""
    if is_enabled():
        from tf_stitch.plugin import graph_hook

        graph_hook.switch(False)


def is_enabled() -> bool:
    """Whether functions that run for the first time now are stitched."""
    from tf_stitch.plugin import autoload

    return autoload.is_active()


def allow_modules(folder: str | os.PathLike[str]) -> None:
    """Lets converted models (docs/converting.md) in `folder`, or below, run the kernels that they bring, in a process
    whose functions are stitched. Call it before the model is loaded. They are machine code: docs/security.md.

    Raises:
        ValueError: there is no such folder.
    """
    place = Path(folder).expanduser().resolve()
    if not place.is_dir() or "\n" in str(place):
        raise ValueError(f"{str(folder)!r} is no folder")
    from tf_stitch.plugin import activation

    activation.allow_modules(place)


def last_report() -> LastReport | None:
    """What was done and gained in this process so far; None if nothing was enabled.

    Printed it is the line that a program ends with. It is a dict as report.json has it, too (docs/explain.md).

    Graphs that TensorFlow has freed are in it only where TF_STITCH_REPORT is set.
    """
    from tf_stitch.plugin import autoload

    if not autoload.was_active():
        return None
    from tf_stitch.plugin.activation import current_session
    from tf_stitch.report.last_report import LastReport

    session = current_session()
    return None if session is None else LastReport(session.document(), session.summary())


def wait(seconds: float = 600.0) -> bool:
    """Waits until functions that were called twice or more are stitched, and until nothing is built any more.

    Their next calls run kernels, and wait for those that they lack because sizes are new. For programs that time
    themselves; others need not wait: a function is stitched in the background once its calls have taken as long as that
    is estimated to cost.

    Args:
        seconds: to wait at most.

    Returns:
        whether nothing is left to wait for; True if nothing was enabled.
    """
    from tf_stitch.plugin import autoload

    if not autoload.was_active():
        return True
    from tf_stitch.plugin.activation import current_session

    session = current_session()
    return session is None or session.finish_builds(seconds)


@overload
def exclude(function: Callable[_P, _R]) -> Callable[_P, _R]: ...
@overload
def exclude(function: None = None) -> contextlib.AbstractContextManager[None]: ...
def exclude(function: Callable[_P, _R] | None = None) -> Any:
    """Leaves ops to TensorFlow: those of a function, as a decorator, or those made inside `with tf_stitch.exclude():`.

    In a function that TensorFlow traces, the ops, and those of their gradients, get the scope "tf_stitch_exclude" in
    their names, by which they are left out. Outside, functions that run for the first time in this thread are left.
    """
    if function is None:
        return _excluded()

    @functools.wraps(function)
    def left_out(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _excluded():
            return function(*args, **kwargs)

    return left_out


@contextlib.contextmanager
def _excluded() -> Iterator[None]:
    import tensorflow as tf

    from tf_stitch.plugin.graph_hook import suspended

    if tf.executing_eagerly():
        with suspended():
            yield
    else:
        with tf.name_scope(SCOPE):
            yield
