"""Calls of functions that hold their variables (frontend/tensorflow/held_handles.py), in place of functions that take
them as arguments.

TensorFlow's function stays as it is, for tapes, for other functions and for what is saved. What a program calls is a
copy of it, made in its first call, in which a node stands for each variable."""

from __future__ import annotations

import contextlib
import itertools
import operator
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager import record
from tensorflow.python.eager.context import Context, context
from tensorflow.python.eager.polymorphic_function.atomic_function import AtomicFunction, InterpolateRuntimeError

from tf_stitch.errors import StitchError
from tf_stitch.frontend.tensorflow.held_handles import handle_node, held_name, original_name, without_arguments

LEAST = 8
"""Variables: for fewer a copy is not worth making."""
_KEPT = "_tf_stitch_held"
_MOST_TIMES = 4
"""That a function may capture other variables: each time it is traced and built again."""
_COMPOSITE = "COMPOSITE"
"""A device that stands for several, with a variable on each."""
_ASK_FOR_ANOTHER = ("_XlaMustCompile", "api_implements", "implements")
"""Attributes of functions that something else is put in the place of."""


class Holder(Protocol):
    """Keeps handles of variables by number (native.bindings.OpLibrary)."""

    def hold(self, handles: Sequence[Any], first: int) -> bool: ...

    def release(self, first: int, count: int) -> None: ...


@dataclass(frozen=True)
class _Kept:
    """What became of a function.

    Attributes:
        pick: what of all that it captures are variables.
        handles: of those that it captured then.
        copy: None: it has none.
        times: that it captured other variables than before.
    """

    pick: Callable[[Sequence[Any]], tuple[Any, ...]]
    handles: tuple[Any, ...]
    copy: HeldFunction | None
    times: int

    def is_of(self, captured: Sequence[Any]) -> bool:
        """Whether it has captured the same variables. Other tensors may differ in each call, as keys of collectives."""
        return all(map(operator.is_, self.pick(captured), self.handles))


class HeldVariables:
    """Thread-safe: of two threads that make a copy at a time, one's is kept.

    Args:
        failed: is told of a function that goes on taking its variables as arguments, and why.
    """

    def __init__(self, holder: Holder, failed: Callable[[str, Exception], None]) -> None:
        self._holder, self._failed = holder, failed
        self._next, self._lock = 0, threading.Lock()

    def copy_of(self, function: Any, captured: Sequence[Any]) -> HeldFunction | None:
        """A ConcreteFunction's copy that holds the variables it captures. None where TensorFlow's is called: under a
        tape, in a graph, with few variables, or variables that others can delete, or with other processes."""
        if len(captured) < LEAST or not is_plain_call(context()):
            return None
        kept: _Kept | None = getattr(function, _KEPT, None)
        if kept is None or not kept.is_of(captured):
            kept = self._new(function._inference_function, captured, 0 if kept is None else kept.times + 1)
            setattr(function, _KEPT, kept)
        return kept.copy

    def _new(self, original: AtomicFunction, captured: Sequence[Any], times: int) -> _Kept:
        places = [i for i, tensor in enumerate(captured) if is_variable(tensor)]
        if times == _MOST_TIMES:
            self._failed(original.name.decode(), StitchError(f"it captured other ones {times} times"))
        if len(places) < LEAST or times == _MOST_TIMES:
            return _Kept(lambda captured: (), (), None, times)
        pick = operator.itemgetter(*places)
        return _Kept(pick, pick(captured), self._made(original, captured, places), times)

    def _made(self, original: AtomicFunction, captured: Sequence[Any], places: Sequence[int]) -> HeldFunction | None:
        if original.call_options.control_captures:
            return None
        try:
            definition = original.definition
            if any(key in definition.attr for key in _ASK_FOR_ANOTHER) or _returns_handles(original):
                return None
            return self._copy(original, definition, captured, places)
        except Exception as error:  # TensorFlow's function goes on
            self._failed(original.name.decode(), error)
            return None

    def _copy(self, original: AtomicFunction, definition: FunctionDef, captured: Sequence[Any], places: Sequence[int]
              ) -> HeldFunction:
        places = sorted(places, key=lambda i: captured[i].device)
        first = self._take(len(places))
        try:
            if not self._hold([captured[i] for i in places], first):
                raise StitchError("one of them is known by its name, by which it can be deleted")
            arguments = [arg.name for arg in definition.signature.input_arg][-len(captured):]
            nodes = {arguments[place]: _node(first + i, captured[place]) for i, place in enumerate(places)}
            copy = without_arguments(definition, nodes)
            copy.signature.name = held_name(definition.signature.name, first)
            held = set(places)
            made = HeldFunction(context(), copy, original, [i for i in range(len(captured)) if i not in held])
        except BaseException:
            self._holder.release(first, len(places))
            raise
        weakref.finalize(made, self._holder.release, first, len(places)).atexit = False
        return made

    def _take(self, count: int) -> int:
        """The first of this many numbers in a row."""
        with self._lock:
            first, self._next = self._next, self._next + count
            return first

    def _hold(self, handles: Sequence[Any], first: int) -> bool:
        """Of handles in order of their devices: an op takes those of one."""
        for device, own in itertools.groupby(handles, key=lambda handle: handle.device):
            theirs = list(own)
            with tf.device(device):
                if not self._holder.hold(theirs, first):
                    return False
            first += len(theirs)
        return True


class HeldFunction:
    """A function of TensorFlow's, which is removed with this object.

    Args:
        definition: its arguments are those of `original` without variables.
        original: what the program knows, and errors name.
        others: places of what it captures beside variables.

    Attributes:
        name: TensorFlow's.
    """

    def __init__(self, ctx: Context, definition: FunctionDef, original: AtomicFunction, others: Sequence[int]) -> None:
        ctx.add_function_def(definition)
        self._ctx, self.name, self._original = ctx, definition.signature.name.encode(), original
        self._others, self._outputs = list(others), len(original.function_type.flat_outputs)
        weakref.finalize(self, _remove, ctx, self.name).atexit = False

    def __call__(self, inputs: Sequence[Any], captured: Sequence[Any]) -> Any:
        """The results, packed as the program expects them.

        Args:
            inputs: tensors, for the arguments.
            captured: all that the original captures.

        Raises:
            tf.errors.OpError: as TensorFlow's function would, with the user's lines.
        """
        arguments = [*inputs, *(captured[i] for i in self._others)]
        with InterpolateRuntimeError(self._original):
            try:
                outputs = self._ctx.call_function(self.name, arguments, self._outputs)
            except tf.errors.OpError as error:
                error._message = original_name(error.message)
                raise
        return self._original.function_type.pack_output(outputs)


def called_name(function: Any) -> bytes:
    """The name of the function that calls of a ConcreteFunction run: its own, or its copy's."""
    kept: _Kept | None = getattr(function, _KEPT, None)
    name: bytes = function._inference_function.name if kept is None or kept.copy is None else kept.copy.name
    return name


def is_plain_call(ctx: Context) -> bool:
    """Another process, which may run a part of a function, holds nothing."""
    return ctx.executing_eagerly() and not record.could_possibly_record() and ctx.get_server_def() is None


def is_variable(tensor: Any) -> bool:
    """Whether it is the handle of one variable on one device."""
    about = getattr(tensor, "_handle_data", None)
    return (isinstance(tensor, tf.Tensor) and tensor.dtype == tf.resource and about is not None and about.is_set
            and len(about.shape_and_type) == 1 and _COMPOSITE not in tensor.device)


def _returns_handles(function: AtomicFunction) -> bool:
    """Results of which TensorFlow has more to say."""
    return any(result.dtype._handle_data for result in function.function_type.flat_outputs)


def _node(number: int, handle: Any) -> NodeDef:
    about = handle._handle_data.shape_and_type[0]
    return handle_node(number, about.dtype, about.shape, handle.device)


def _remove(ctx: Context, name: bytes) -> None:
    with contextlib.suppress(tf.errors.OpError, AttributeError, TypeError):  # the context is gone
        ctx.remove_function(name)
