"""What TensorFlow does around the kernels in each call of a function, where it grows with the number of variables.

A model that is one region has little else: of the 330 us that a call with 192 variables took on a CPU, the region took
25; on a machine with an H200, of 1,330 us 110, and the GPU worked for 790.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tf_stitch.messages import say
from tf_stitch.plugin.callers_executor import EXECUTOR, call_with
from tf_stitch.plugin.held_variables import HeldVariables
from tf_stitch.plugin.measured_thread import CALLED_BEFORE, THREAD

if TYPE_CHECKING:
    from tf_stitch.plugin.first_calls import FirstCalls
    from tf_stitch.plugin.step_turns import StepTurns


def shorten(executor: bool, first_calls: Callable[[], FirstCalls | None] = lambda: None,
            held: HeldVariables | None = None, turns: Callable[[], StepTurns | None] = lambda: None) -> None:
    """Makes calls of functions cheaper.

    Args:
        executor: EXECUTOR is registered (`OpLibrary.callers_executor`).
        first_calls: returns what the first calls of a function run, None where they are like all others; it is asked
            once, in the first call of all.
        held: makes copies of functions that hold their variables; None where all take them as arguments.
        turns: returns what measures calls, where the executor is registered, None where nothing does so far; asked
            until it returns something.
    """
    try:
        from tensorflow.core.function.polymorphism.function_type import FunctionType
        from tensorflow.python.eager.context import Context
        from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
        from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

        hashed, captured, call = FunctionType.__hash__, ConcreteFunction.captured_inputs.fget, Context.call_function
        flat = ConcreteFunction._call_flat
    except (ImportError, AttributeError) as error:
        say(f"this TensorFlow calls functions in an unknown way, which stays as it is: {error}")
        return
    FunctionType.__hash__ = _once(hashed)
    ConcreteFunction.captured_inputs = property(_while_the_same(captured))
    if held is not None:
        ConcreteFunction._call_flat = _by_copies(flat, held)
    if executor:
        Context.call_function = _in_the_callers_thread(call, functools.cache(first_calls))
        ConcreteFunction._call_flat = _in_turns(ConcreteFunction._call_flat, flat, _Asked(turns, Function))


class _Asked:
    """Asks for what measures calls until there is something.

    Args:
        of: the class of a tf.function.
    """

    def __init__(self, turns: Callable[[], StepTurns | None], of: Any) -> None:
        self._turns, self._of = turns, of
        self._found: StepTurns | None = None

    def __call__(self) -> StepTurns | None:
        if self._found is None and (found := self._turns()) is not None:
            _wrap_when_near(found, self._of)
            self._found = found
        return self._found


def _once(original: Any) -> Any:
    """TensorFlow looks a function up by its type in every call, and hashes the types of all that it captures. A type
    does not change; TensorFlow keeps other things that follow from it, too."""

    @functools.wraps(original)
    def hashed(self: Any) -> int:
        kept: int | None = getattr(self, "_tf_stitch_hash", None)
        if kept is None or THREAD.long:
            kept = self._tf_stitch_hash = original(self)
        return kept

    return hashed


def _while_the_same(original: Any) -> Any:
    """In every call TensorFlow asks each tensor that a function captures whether it has to be computed, or consists of
    several. Where the answer was no for all, and they are the same tensors still, it is no again."""

    @functools.wraps(original)
    def captured_inputs(self: Any) -> list[Any]:
        captured = self._captured_inputs
        plain: list[Any] | None = None if THREAD.long else getattr(self, "_tf_stitch_captured", None)
        if plain is not None and len(plain) == len(captured) and all(map(operator.is_, plain, captured)):
            return list(plain)
        flat: list[Any] = original(self)
        if len(flat) == len(captured) and all(map(operator.is_, flat, captured)):
            self._tf_stitch_captured = list(flat)
        return flat

    return captured_inputs


def _by_copies(original: Any, held: HeldVariables) -> Any:
    """What TensorFlow does for each argument in each call it does not do for variables that a function holds."""

    @functools.wraps(original)
    def _call_flat(self: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        copy = held.copy_of(self, captured_inputs)
        return (original(self, tensor_inputs, captured_inputs) if copy is None else
                copy(tensor_inputs, captured_inputs))

    return _call_flat


def _in_turns(original: Any, plain: Any, asked: Callable[[], StepTurns | None]) -> Any:
    """Some calls measure what calls take."""

    @functools.wraps(original)
    def _call_flat(self: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        turns = asked()
        if turns is None:
            self.__dict__[CALLED_BEFORE] = self.__dict__.get(CALLED_BEFORE, 0) + 1
            return original(self, tensor_inputs, captured_inputs)
        return turns.call(original, self, tensor_inputs, captured_inputs, plain)

    return _call_flat


def _wrap_when_near(turns: StepTurns, of: Any) -> None:
    """What tf.function does around a call that measures is measured, too. At other times, as when functions are traced,
    TensorFlow's method is as it was: else errors would show ours between the user's lines."""
    plain = of.__call__
    wrapped = turns.around(plain)

    def put(near: bool) -> None:
        if of.__call__ is (plain if near else wrapped):  # nobody else's
            of.__call__ = wrapped if near else plain

    turns.on_near = put


def _in_the_callers_thread(original: Any, asked: Callable[[], FirstCalls | None]) -> Any:
    """Other processes do not have our executor, nor does it replace one that the user chose."""

    @functools.wraps(original)
    def call_function(self: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
        if self.function_call_options.executor_type or self.get_server_def() is not None:
            return original(self, name, tensor_inputs, num_outputs)
        if THREAD.plain:
            return original(self, name, tensor_inputs, num_outputs)
        first = asked()
        if first is not None and not first.is_over(name):
            return first.call(original, self, name, tensor_inputs, num_outputs)
        return call_with(original, self, EXECUTOR, name, tensor_inputs, num_outputs)

    return call_function
