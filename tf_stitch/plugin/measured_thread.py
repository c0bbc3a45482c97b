"""What a thread does while its calls of functions are measured (plugin/step_turns.py)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tf_stitch.plugin import graph_hook

if TYPE_CHECKING:
    from tf_stitch.plugin.step_states import Function, InTurn

CALLED_BEFORE = "_tf_stitch_called_before"
"""Attribute of a ConcreteFunction: its calls before there was anything to measure them."""


@dataclass(frozen=True)
class Part:
    """A call of the program in a turn; `plain` if TensorFlow's graph ran."""

    called: Function
    turn: InTurn
    plain: bool


@dataclass(eq=False)
class Whole:
    """A call of a tf.function, with what TensorFlow does in Python around the function that it finds.

    Attributes:
        again: makes the same call once more.
        part: what it is of a turn; None: nothing.
        seconds_beside: in it, that are not the program's.
    """

    again: Callable[[], Any]
    part: Part | None = None
    seconds_beside: float = 0.0


@dataclass(frozen=True)
class Unseen:
    """A call beside the program.

    Attributes:
        function: a ConcreteFunction.
        given: in place of its inputs and of what it captures.
    """

    function: Any
    given: Sequence[Any]


class _Thread(threading.local):
    """
    Attributes:
        plain: TensorFlow's graph runs.
        long: TensorFlow does all that it does around a call, also what plugin/function_calls.py saves.
    """

    plain = long = False
    unseen: Unseen | None = None
    whole: Whole | None = None

    @contextlib.contextmanager
    def calls_plain(self) -> Iterator[None]:
        """TensorFlow's graph runs inside."""
        self.plain = True
        try:
            with graph_hook.suspended():
                yield
        finally:
            self.plain = False

    @contextlib.contextmanager
    def calls_unseen(self, call: Unseen) -> Iterator[None]:
        """TensorFlow's graph runs inside, beside the program."""
        self.unseen, self.long = call, True
        try:
            with self.calls_plain():
                yield
        finally:
            self.unseen, self.long = None, False

    @contextlib.contextmanager
    def calls(self, whole: Whole, long: bool) -> Iterator[None]:
        """A call of a tf.function; one may run inside another."""
        before, self.whole, self.long = self.whole, whole, long
        try:
            yield
        finally:
            self.whole, self.long = before, False


THREAD = _Thread()
"""This one."""
