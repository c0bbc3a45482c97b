"""First calls of a function run TensorFlow's own graph, until they have taken as long as kernels cost to build.

TensorFlow makes an instance of a function for each executor that its calls ask for by name. First calls ask for none,
and the graph hook leaves that instance alone. When calls have earned it (plugin/allowance.py), another one is made in
the background, for our executor, by a call that is cancelled before it starts: TensorFlow optimizes the graph, which is
rewritten, and runs nothing of it. Once the kernels are built, calls ask for our executor: of a function that an earlier
process has built, from one call on that is the same in every run (docs/decisions/first_calls.md).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import tensorflow as tf
from tensorflow.python.eager.context import Context, context

from tf_stitch.interruption import Interrupted
from tf_stitch.plugin import graph_hook
from tf_stitch.plugin.allowance import Account, Allowance
from tf_stitch.plugin.callers_executor import EXECUTOR, Call, call_with
from tf_stitch.plugin.function_definition import FunctionDefinition
from tf_stitch.plugin.gpu_calls import wait_for_gpus
from tf_stitch.plugin.other_instance import Arguments
from tf_stitch.plugin.waiting import may_wait

ORIGINAL_CALLS = 3
"""Calls of a known function that run TensorFlow's graph, at least."""
T = TypeVar("T")
HasRoom = Callable[[Context, FunctionDefinition, bytes, Any, int], bool]
_MOST_FUNCTIONS = 1000
"""That are kept before those that TensorFlow has removed are looked for."""


class Known(Protocol):
    """Functions that processes have built (plugin/known_functions.py)."""

    def recall(self, key: str) -> int | None: ...

    def add(self, key: str, call: int) -> None: ...


@dataclass(frozen=True)
class Seconds:
    """Processor time so far of threads that build kernels, and of compilers that they started."""

    python: float
    compilers: float


class RepeatedCall(Protocol):
    """A call that makes the other instance, and runs nothing."""

    def __call__(self) -> None: ...

    @property
    def is_wanted(self) -> bool: ...


class Repeatable(Protocol):
    """What a call was made with."""

    def call(self) -> RepeatedCall | None: ...


@dataclass(eq=False)
class Unbuilt:
    """A function, or runs of a session, whose first calls run TensorFlow's graph.

    Attributes:
        name: unique in the process.
        graph: as the graph hook calls it.
        key: what it computes, as hex digits.
        account: what its calls took.
        change: the call that kernels compute first, of a function that an earlier process has built; None: it is
            unknown, and the clock decides.
        arguments: of a recent call.
        preparing: the other instance is being made, or is there.
        given_up: it stays TensorFlow's, or it is there no more.
        settled: nothing goes on any more: it is `built`, or `given_up`, or the program ends.
        gpu_seconds: that a call took with all that GPUs do for it, when that was looked at last.
    """

    name: bytes
    graph: str
    key: str
    account: Account
    change: int | None = None
    calls: int = 0
    arguments: Repeatable | None = None
    preparing: bool = False
    built: bool = False
    given_up: bool = False
    settled: threading.Event = field(default_factory=threading.Event)
    gpu_seconds: float = 0.0

    def timed(self, plain: Callable[[], T]) -> tuple[T, float]:
        """What a call by TensorFlow's graph gives, and the seconds that it takes."""
        looks = self.account.on_gpus and self.calls > 1 and is_power_of_two(self.calls)
        if looks:
            wait_for_gpus()
        start = time.perf_counter()
        result = plain()
        if looks:
            wait_for_gpus()
            self.gpu_seconds = time.perf_counter() - start
        return result, max(time.perf_counter() - start, self.gpu_seconds)


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


class FirstCalls:
    """Thread-safe.

    Args:
        submit: runs work in the background; False if the program ends.
        load: loads what rewrites graphs. Whether it is there, and the program goes on.
        build: builds the kernels of a function's graph, as far as its sizes are known, and returns when they are there:
            whether that is all of them.
        failed: is told of a function that stays TensorFlow's, and why.
        known: functions that processes have built.
        spent: what threads and compilers have taken that `build` runs.
        patience: seconds that calls of a known function wait for its kernels; 0 for as long as that takes.
        has_room: whether GPUs have room for TensorFlow's graph of a function that is called for the first time.
        sessions_on_gpus: runs of sessions wait on machines with GPUs, too.
        at_once: none waits; later processes still know which are built.
    """

    def __init__(self, submit: Callable[[Callable[[], None]], bool], load: Callable[[], bool],
                 build: Callable[[str], bool], failed: Callable[[str, Exception], None], known: Known,
                 spent: Callable[[], Seconds], patience: float = 0, has_room: HasRoom = lambda *_: True,
                 sessions_on_gpus: bool = False, at_once: bool = False) -> None:
        self._submit, self._load, self._build, self._failed, self._known = submit, load, build, failed, known
        self._spent, self._allowance = spent, Allowance()
        self._patience, self._has_room, self._at_once = patience or None, has_room, at_once
        self._sessions_on_gpus = sessions_on_gpus
        self._functions: dict[bytes, Unbuilt] = {}
        self._ready: set[bytes] = set()
        self._left: dict[str, bool] = {}  # graphs of first calls -> whether the clock decides
        self._unfinished: dict[str, tuple[str, int]] = {}  # graphs whose sizes runs show -> what is kept of them
        self._start()

    def _start(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()

    @property
    def sessions_wait(self) -> bool:
        """Whether runs of sessions wait on this machine."""
        return not self._at_once and (self._sessions_on_gpus or not tf.config.list_physical_devices("GPU"))

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
        function = self._function(ctx, name, inputs, outputs)
        if function is None:
            return call_with(original, ctx, EXECUTOR, name, inputs, outputs)

        def plain() -> Any:
            with graph_hook.left_alone(name.decode()):
                return original(ctx, name, inputs, outputs)

        return self.run(function, plain, lambda: call_with(original, ctx, EXECUTOR, name, inputs, outputs),
                        lambda: Arguments(ctx, name, inputs, outputs))

    def run(self, function: Unbuilt, plain: Callable[[], T], stitched: Callable[[], T],
            arguments: Callable[[], Repeatable]) -> T:
        """A call of what is waiting: `plain` runs TensorFlow's graph, `stitched` ours.

        Args:
            arguments: what this call is made with.
        """
        with self._lock:
            function.calls += 1
            calls = function.calls
        if calls == 2:  # what is called once asks nothing of the disk
            function.change = self._known.recall(function.key)
            self._left[function.graph] = function.change is None
        begins = function.change is not None and calls >= function.change // 2 and not function.preparing
        if begins or (calls > 1 and is_power_of_two(calls)):  # of some calls: it takes time
            function.arguments = arguments()
        if begins:
            self._begin(function)
        if function.change is not None and calls >= function.change and self._change_over(function):
            return stitched()
        result, seconds = function.timed(plain)
        if calls > 1 and self._took(function, seconds):  # the first one makes the graph
            function.arguments = arguments()
            self._begin_most_valuable()
        return result

    def add(self, function: Unbuilt) -> None:
        """What waits beside functions: runs of a session."""
        with self._lock:
            self._functions[function.name] = function

    def finish(self, seconds: float) -> bool:
        """Has the functions built that were called again, and waits for them, this many seconds at most; their next
        calls ask for our executor. Whether none is left."""
        end = time.monotonic() + seconds
        for function in list(self._functions.values()):
            self._begin(function)
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
            for key, call in self._unfinished.values():
                if self._known.recall(key) is None:
                    self._known.add(key, call)

    def _function(self, ctx: Context, name: bytes, inputs: Any, outputs: int) -> Unbuilt | None:
        """None for one that is stitched at once."""
        function = self._functions.get(name)
        if function is not None:
            return function
        definition = self._may_wait(ctx, name, inputs, outputs)
        if definition is None:
            self._ready.add(name)
            return None
        key = definition.key()
        if self._at_once:
            self._unfinished[name.decode()] = key, ORIGINAL_CALLS + 1
            self._ready.add(name)
            return None
        with self._lock:
            self._forget()
            nodes = sum(1 for _ in definition.nodes())
            account = Account(nodes, on_gpus=bool(ctx.num_gpus()))
            function = self._functions.setdefault(name, Unbuilt(name, name.decode(), key, account))
            self._left.setdefault(function.graph, True)
            return function

    def _may_wait(self, ctx: Context, name: bytes, inputs: Any, outputs: int) -> FunctionDefinition | None:
        """What a function is if its first calls can run TensorFlow's graph."""
        if not graph_hook.is_on_here():
            return None
        found = may_wait(ctx, name)
        if found is None or self._at_once or not ctx.num_gpus():
            return found
        return found if self._has_room(ctx, found, name, inputs, outputs) else None

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

    def _change_over(self, function: Unbuilt) -> bool:
        """Waits for the kernels of a known function. Whether they are there."""
        if not function.settled.wait(self._patience):
            with self._lock:
                if not function.built:  # from now on the clock decides
                    function.change, self._left[function.graph] = None, True
        if function.built:
            self._over(function.name)
        return function.built

    def _over(self, name: bytes) -> None:
        with self._lock:
            self._ready.add(name)
            self._functions.pop(name, None)

    def _took(self, function: Unbuilt, seconds: float) -> bool:
        """A call by TensorFlow's graph is over. Whether kernels have been earned, and are to be begun."""
        with self._lock:
            self._allowance.earn(function.account, seconds)
            return function.change is None and not function.preparing and self._allowance.covers(function.account)

    def _begin_most_valuable(self) -> None:
        """Begins the function whose calls took longest of those that have earned it, unless one is being prepared."""
        with self._lock:
            if any(one.preparing and not one.settled.is_set() for one in self._functions.values()):
                return
            waiting = {one.account: one for one in self._functions.values()
                       if one.arguments is not None and one.change is None and not one.preparing}
            account = self._allowance.most_valuable(waiting)
        if account is not None:
            self._begin(waiting[account])

    def _begin(self, function: Unbuilt) -> None:
        """Has a function prepared that was called again, once; later if what it was called with is gone."""
        call = None if function.arguments is None else function.arguments.call()
        with self._lock:
            if function.preparing or call is None:
                return
            function.preparing, function.arguments = True, None
        if not self._submit(partial(self._prepare, function, call)):
            function.settled.set()  # the program ends

    def _prepare(self, function: Unbuilt, call: RepeatedCall) -> None:
        """In the background: makes the other instance and its kernels, and enters what that took."""
        with self._lock:
            reserved = self._allowance.begin(function.account)
        before, start = self._spent(), time.thread_time()
        complete = self._built(function, call)
        after = self._spent()
        python = time.thread_time() - start + after.python - before.python
        with self._lock:
            self._allowance.end(function.account, reserved, python + after.compilers - before.compilers)
        if complete is not None:
            self._keep(function, complete, python)
        self._begin_most_valuable()

    def _built(self, function: Unbuilt, call: RepeatedCall) -> bool | None:
        """Whether all kernels are there, or some only when runs show their sizes; None: the function is as before."""
        try:
            if not self._load():
                raise CancelledError
            call()
            return self._build(function.graph)
        except Interrupted:  # a later call begins it again
            function.preparing = False
        except CancelledError:  # the program ends
            function.settled.set()
        except Exception as error:  # TensorFlow's graph goes on
            function.given_up = True
            function.settled.set()
            if call.is_wanted:
                self._failed(function.name.decode(), error)
        return None

    def _keep(self, function: Unbuilt, complete: bool, python: float) -> None:
        """Has calls ask for our executor.

        Args:
            complete: the function's kernels are all in the cache.
            python: seconds of processor time that a later process will take, too.
        """
        with self._lock:
            function.built = True
            change = function.change
        if change is None:
            # Of the calls before it, half earn the rewriting, which is done in the background of the other half.
            kept = function.key, max(ORIGINAL_CALLS + 1, 2 * function.account.calls_for(python))
            if complete:
                self._known.add(*kept)
            else:
                self._unfinished[function.name.decode()] = kept
        function.settled.set()
        if change is None:
            self._over(function.name)
