"""How a program is called where that is the matter: before, at and after the change-over from TensorFlow's graph to
kernels, by several threads, with errors in between."""

from __future__ import annotations

import base64
import gc
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

Action = tuple[Any, ...]
"""What is done, and its numbers:

- ("wrap", how): the function is made anew, "as it is", "retraced" for each shape, with "reduced" retracing, or called
  from an "outer" one;
- ("calls", number, count, pause): so many calls with the arguments of that number, with so many milliseconds between;
- ("raise",): a call with the last arguments, in which the program raises;
- ("threads", count, calls, pause): each thread makes so many calls, with other arguments each time;
- ("drop",): another function of the same program is called twice, and dropped;
- ("wait",): until kernels are there.
"""
Call = Callable[..., Any]
_SECONDS = 50.0
"""That kernels of a program may take."""


class Kernels(Protocol):
    """What a process is asked of its kernels."""

    def wait(self, seconds: float) -> bool:
        """Waits for them; whether they are there."""

    def changed(self) -> int:
        """How many functions have changed over to them."""


def written(tensor: Any) -> list[Any]:
    """A tensor as JSON."""
    array = np.asarray(tensor.numpy())
    if array.dtype == object:
        return ["object", list(array.shape), [str(x) for x in array.reshape(-1)]]
    return [array.dtype.name, list(array.shape), base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()]


def error(raised: Exception) -> dict[str, str]:
    """What a call raised, as JSON."""
    return {"type": type(raised).__name__, "message": str(raised)[:2000]}


def result(call: Call, arguments: Sequence[Any]) -> list[Any] | dict[str, str]:
    """What a call gives: values, or its error."""
    try:
        return [written(x) for x in tf.nest.flatten(call(*arguments), expand_composites=True) if x is not None]
    except Exception as raised:  # to be compared with what the other does
        return error(raised)


class Calling:
    """Follows a schedule. Variables that count calls have to be right whatever threads and errors there were. In what
    order threads write others, and what is written before an error, is not defined: those get back what they held
    before; and they begin each action anew, so that they stay finite.

    Args:
        program: of which functions are made.
        calls: arguments; with the last ones the program raises.
        state: variables.
        counters: those of them that count calls.
        kernels: None where there are none: then nothing pauses, and threads come one after the other.
    """

    def __init__(self, program: Any, calls: Sequence[Sequence[Any]], state: Sequence[tf.Variable],
                 counters: Sequence[tf.Variable], kernels: Kernels | None) -> None:
        self._program, self._calls, self._state, self._kernels = program, calls, state, kernels
        self._others = [v for v in state if not any(v is counter for counter in counters)]
        self._first = [v.numpy() for v in self._others]
        self._function: Call = program
        self.changed: Counter[str] = Counter()
        """Kind of action -> functions that changed over to kernels meanwhile."""

    def follow(self, schedule: Sequence[Action]) -> tuple[list[Any], str]:
        """What each call gave, each followed by what variables hold; the first error of a call that was to work,
        or ""."""
        found: list[Any] = []
        failed = ""
        for kind, *numbers in schedule:
            before = self._kernels.changed() if self._kernels else 0
            self._put_back(self._first)
            for answer in self._do(kind, *numbers):
                if isinstance(answer, dict) and kind != "raise":
                    failed = failed or f"{answer['type']}: {answer['message']}"
                found += [answer, [written(v) for v in self._state]]
            self.changed[kind] += self._kernels.changed() - before if self._kernels else 0
        return found, failed

    def _do(self, kind: str, *numbers: Any) -> Iterator[Any]:
        if kind == "wrap":
            self._function = self._made(*numbers)
        elif kind == "calls":
            number, count, pause = numbers
            for n in range(number, number + count):
                self._pause(pause)
                yield self._call(self._arguments(n))
        elif kind == "raise":
            yield self._call(self._calls[-1])
        elif kind == "threads":
            yield self._threads(*numbers)
        elif kind == "drop":
            other = self._made("as it is")
            yield from [result(other, self._arguments(n)) for n in (0, 1)]
            del other
            gc.collect()
        elif kind == "wait":
            yield self._wait()

    def _made(self, how: str) -> Call:
        program = self._program
        signature = program.input_signature if how == "as it is" else None
        python = program if how == "outer" else program.python_function
        made: Call = tf.function(python, signature, autograph=False, reduce_retracing=how == "reduced")
        return made

    def _arguments(self, number: int) -> Sequence[Any]:
        return self._calls[number % max(1, len(self._calls) - 1)]

    def _call(self, arguments: Sequence[Any]) -> Any:
        before = [v.numpy() for v in self._others]
        answer = result(self._function, arguments)
        if isinstance(answer, dict):
            self._put_back(before)
        return answer

    def _threads(self, count: int, calls: int, pause: int) -> Any:
        before = [v.numpy() for v in self._others]
        raised: list[Any] = []

        def run(first: int) -> None:
            for n in range(first, first + calls):
                self._pause(pause)
                answer = result(self._function, self._arguments(n))
                if isinstance(answer, dict):
                    raised.append(answer)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
        for thread in threads:
            thread.start()
            if self._kernels is None:
                thread.join()
        for thread in threads:
            thread.join()
        self._put_back(before)
        return raised[0] if raised else []

    def _wait(self) -> Any:
        if self._kernels is None or self._kernels.wait(_SECONDS):
            return []
        return {"type": "TimeoutError", "message": f"kernels are not there after {_SECONDS:g} s"}

    def _pause(self, milliseconds: int) -> None:
        if self._kernels is not None:
            time.sleep(milliseconds / 1000)

    def _put_back(self, values: Sequence[Any]) -> None:
        for variable, value in zip(self._others, values, strict=True):
            variable.assign(value)
