"""First calls of a function run TensorFlow's own graph, while it is rewritten and its kernels are built beside them.

TensorFlow makes an instance of a function for each executor that its calls ask for by name. First calls ask for none,
and the graph hook leaves that instance alone. The second call begins another one beside the program, for our executor,
by a call that is cancelled before it starts: TensorFlow optimizes the graph, which is rewritten, and runs nothing of
it. Once the kernels are built, calls ask for our executor: of a function that an earlier process has built, from one
call on that is the same in every run (docs/decisions/first_calls.md).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.eager import cancellation, execute
from tensorflow.python.eager.context import Context, context

from tf_stitch.interruption import Interrupted
from tf_stitch.plugin import graph_hook
from tf_stitch.plugin.callers_executor import EXECUTOR, Call, call_with
from tf_stitch.plugin.function_definition import FunctionDefinition
from tf_stitch.plugin.waiting import may_wait

ORIGINAL_CALLS = 3
"""Calls of a known function that run TensorFlow's graph: the kernels of all later ones are waited for. Its kernels are
on disk, and rewriting the graph is beside the second and the third."""
_MOST_FUNCTIONS = 1000
"""That are kept before those that TensorFlow has removed are looked for."""


class Known(Protocol):
    """Functions that processes have built (plugin/known_functions.py)."""

    def __contains__(self, key: str) -> bool: ...

    def add(self, key: str) -> None: ...


@dataclass(eq=False)
class _Function:
    """One whose first calls run TensorFlow's graph.

    Attributes:
        known: an earlier process has built it, and the clock does not decide when it changes over.
        preparing: the other instance is being made, or is there.
        given_up: it stays TensorFlow's, or it is there no more.
        settled: nothing goes on any more: it is `built`, or `given_up`, or the program ends.
    """

    key: str
    known: bool
    calls: int = 0
    preparing: bool = False
    built: bool = False
    given_up: bool = False
    settled: threading.Event = field(default_factory=threading.Event)


class FirstCalls:
    """Thread-safe.

    Args:
        submit: runs work beside the program; False if the program ends.
        build: builds the kernels of a function's graph, as far as its sizes are known, and returns when they are there:
            whether that is all of them.
        failed: is told of a function that stays TensorFlow's, and why.
        known: functions that processes have built.
        patience: seconds that calls of a known function wait for its kernels; 0 for as long as that takes.
        on_gpus: functions wait on machines with GPUs, too.
        at_once: none waits; later processes still know which are built.
    """

    def __init__(self, submit: Callable[[Callable[[], None]], bool], build: Callable[[str], bool],
                 failed: Callable[[str, Exception], None], known: Known, patience: float = 0, on_gpus: bool = False,
                 at_once: bool = False) -> None:
        self._submit, self._build, self._failed, self._known = submit, build, failed, known
        self._patience, self._on_gpus, self._at_once = patience or None, on_gpus, at_once
        self._functions: dict[bytes, _Function] = {}
        self._ready: set[bytes] = set()
        self._left: dict[str, bool] = {}  # graphs of first calls -> whether the clock decides
        self._unfinished: dict[str, str] = {}  # graphs whose sizes runs show -> their keys
        self._start()

    def _start(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()

    def is_over(self, name: bytes) -> bool:
        """Whether calls of a function ask for our executor."""
        return name in self._ready

    def began(self, graph: str) -> bool:
        """Whether the first calls of a function ran, or run, TensorFlow's graph."""
        return graph in self._left

    def changes_any_time(self, graph: str) -> bool:
        """Whether its first calls run, or ran, TensorFlow's graph until the clock said that kernels were built."""
        return self._left.get(graph, False)

    @property
    def waiting(self) -> int:
        """Functions that were called again, and whose kernels are to come."""
        return sum(function.calls > 1 and not function.given_up for function in list(self._functions.values()))

    @property
    def changed(self) -> int:
        """Functions that have changed over."""
        return sum(graph.encode() in self._ready for graph in list(self._left))

    def __str__(self) -> str:
        """Which functions were not stitched; "" if those alone that ran once, beside others."""
        waiting = self.waiting
        once = 0 if self._ready else sum(function.calls == 1 for function in list(self._functions.values()))
        found = [f"{waiting} in {'its' if waiting == 1 else 'their'} first calls"] * (waiting > 0)
        found += [f"{once} called once"] * (once > 0)
        return f"functions without kernels yet: {', '.join(found)} (TF_STITCH_ASYNC=0 waits)" if found else ""

    def call(self, original: Call, ctx: Context, name: bytes, inputs: Any, outputs: int) -> Any:
        """A call of a function whose first calls are not over, by `original`, which is Context.call_function."""
        if os.getpid() != self._process:
            self._forget_threads()
        function = self._function(ctx, name)
        if function is None:
            return call_with(original, ctx, EXECUTOR, name, inputs, outputs)
        with self._lock:
            function.calls += 1
            calls = function.calls
            begins = calls > 1 and not function.preparing
            function.preparing |= begins
        if begins:
            attributes = ctx.function_call_options.as_attrs()
            if not self._submit(partial(self._prepare, function, ctx, name, inputs, outputs, attributes)):
                function.settled.set()  # the program ends
        if function.known and calls > ORIGINAL_CALLS and self._change_over(name, function):
            return call_with(original, ctx, EXECUTOR, name, inputs, outputs)
        with graph_hook.left_alone(name.decode()):
            return original(ctx, name, inputs, outputs)

    def finish(self, seconds: float) -> bool:
        """Waits for the functions that were called again, this many seconds at most; their next calls ask for our
        executor. Whether none is left."""
        end = time.monotonic() + seconds
        for name, function in list(self._functions.items()):
            if function.preparing and function.settled.wait(max(0.0, end - time.monotonic())) and function.built:
                self._over(name)
        return not self.waiting

    def end(self, all_is_built: bool) -> None:
        """The program ends.

        Args:
            all_is_built: no kernels were being built, of sizes that runs showed either.
        """
        if all_is_built:
            for key in self._unfinished.values():
                self._known.add(key)

    def _function(self, ctx: Context, name: bytes) -> _Function | None:
        """None for one that is stitched at once."""
        function = self._functions.get(name)
        if function is not None:
            return function
        definition = self._may_wait(ctx, name)
        if definition is None:
            self._ready.add(name)
            return None
        key = definition.key()
        if self._at_once:
            self._unfinished[name.decode()] = key
            self._ready.add(name)
            return None
        with self._lock:
            self._forget()
            function = self._functions.setdefault(name, _Function(key, key in self._known))
            self._left[name.decode()] = not function.known
            return function

    def _may_wait(self, ctx: Context, name: bytes) -> FunctionDefinition | None:
        """What a function is if its first calls can run TensorFlow's graph."""
        if not graph_hook.is_on_here() or (ctx.num_gpus() and not self._on_gpus):
            return None
        return may_wait(ctx, name)

    def _forget(self) -> None:
        if len(self._functions) + len(self._ready) < _MOST_FUNCTIONS:
            return
        exists = context().has_function
        self._ready = {name for name in self._ready if exists(name)}
        self._functions = {name: function for name, function in self._functions.items() if exists(name)}
        self._left = {graph: any_time for graph, any_time in self._left.items() if exists(graph)}

    def _forget_threads(self) -> None:
        """A forked child has none of its parent's: what they were at begins again."""
        self._start()
        for function in self._functions.values():
            function.preparing, function.settled = function.built, threading.Event()
            if function.built:
                function.settled.set()

    def _change_over(self, name: bytes, function: _Function) -> bool:
        """Waits for the kernels of a known function. Whether they are there."""
        if not function.settled.wait(self._patience):
            with self._lock:
                if not function.built:  # from now on the clock decides
                    function.known, self._left[name.decode()] = False, True
        if function.built:
            self._over(name)
        return function.built

    def _over(self, name: bytes) -> None:
        with self._lock:
            self._ready.add(name)
            self._functions.pop(name, None)

    def _prepare(self, function: _Function, ctx: Context, name: bytes, *call: Any) -> None:
        try:
            instantiate(ctx, name, *call)
            if self._build(name.decode()):
                self._known.add(function.key)
            else:
                self._unfinished[name.decode()] = function.key
        except Interrupted:  # the next call begins it again
            function.preparing = False
            return
        except CancelledError:  # the program ends
            function.settled.set()
            return
        except Exception as error:  # TensorFlow's graph goes on
            function.given_up = True
            function.settled.set()
            if ctx.has_function(name):  # nobody misses kernels of one that was dropped meanwhile
                self._failed(name.decode(), error)
            return
        with self._lock:
            function.built = True
            any_time = not function.known
        function.settled.set()
        if any_time:
            self._over(name)


def instantiate(ctx: Context, name: bytes, inputs: Any, outputs: int, attributes: dict[str, Any]) -> None:
    """Makes the instance of a function that our executor runs, and runs nothing of it.

    Args:
        attributes: of calls by the thread that called the function.

    Raises:
        RuntimeError: TensorFlow ran it all the same.
        OpError: it cannot be instantiated.
    """
    manager = cancellation.CancellationManager()
    manager.start_cancel()
    attrs = tuple(chain(*(attributes | {"executor_type": EXECUTOR}).items()))
    try:
        execute.execute_with_cancellation(name.decode(), outputs, inputs, attrs, ctx, manager)
    except tf.errors.CancelledError:
        return
    raise RuntimeError("TensorFlow ran a call that was cancelled before")
