"""First calls of a function run TensorFlow's own graph, while it is rewritten and its kernels are built beside them.

TensorFlow makes an instance of a function for each executor that its calls ask for by name. First calls ask for none,
and the graph hook leaves that instance alone. The second call begins another one beside the program, for our executor,
by a call that is cancelled before it starts: TensorFlow optimizes the graph, which is rewritten, and runs nothing of
it. Once the kernels are built, calls ask for our executor (docs/decisions/first_calls.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager import cancellation, execute
from tensorflow.python.eager.context import Context, context
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework.config import is_op_determinism_enabled

from tf_stitch.plugin import graph_hook

EXECUTOR = "TF_STITCH"
"""native/op/callers_executor.cc registers it: a function that is one region runs in the thread that calls it."""
_MOST_FUNCTIONS = 1000
"""That are kept before those that TensorFlow has removed are looked for."""
_STATE_ELSEWHERE = ("Assert", "Assign", "Case", "If", "Iterator", "LookupTable", "NoOp", "OptionalFromValue",
                    "OptionalGetValue", "PartitionedCall", "Print", "ReadVariableOp", "Resource", "Rng", "Stateful",
                    "VarHandleOp", "VarIsInitializedOp", "While", "WriteSummary")
"""Beginnings of ops with a state that is not the kernel's: two instances of such a function share it."""

Call = Callable[..., Any]


@dataclass(eq=False)
class _Function:
    """One whose first calls run TensorFlow's graph. `preparing`: the other instance is being made."""

    calls: int = 0
    preparing: bool = False
    failed: bool = False


class FirstCalls:
    """Thread-safe.

    Args:
        submit: runs work beside the program; False if the program ends.
        build: builds the kernels of a function's graph, as far as its sizes are known, and returns when they are there.
        failed: is told of a function that stays TensorFlow's, and why.
    """

    def __init__(self, submit: Callable[[Callable[[], None]], bool], build: Callable[[str], None],
                 failed: Callable[[str, Exception], None]) -> None:
        self._submit, self._build, self._failed = submit, build, failed
        self._functions: dict[bytes, _Function] = {}
        self._ready: set[bytes] = set()
        self._left: set[str] = set()
        self._lock = threading.Lock()

    def is_over(self, name: bytes) -> bool:
        """Whether calls of a function ask for our executor."""
        return name in self._ready

    def began(self, graph: str) -> bool:
        """Whether the first calls of a function ran, or run, TensorFlow's graph."""
        return graph in self._left

    @property
    def waiting(self) -> int:
        """Functions that TensorFlow's own graphs run still."""
        return len(self._functions)

    def call(self, original: Call, ctx: Context, name: bytes, inputs: Any, outputs: int) -> Any:
        """A call of a function whose first calls are not over, by `original`, which is Context.call_function."""
        function = self._function(ctx, name)
        if function is None:
            return call_with(original, ctx, EXECUTOR, name, inputs, outputs)
        with self._lock:
            function.calls += 1
            begins = function.calls > 1 and not function.preparing and not function.failed
            function.preparing |= begins
        if begins:
            attributes = ctx.function_call_options.as_attrs()
            self._submit(partial(self._prepare, function, ctx, name, inputs, outputs, attributes))
        with graph_hook.left_alone(name.decode()):
            return original(ctx, name, inputs, outputs)

    def _function(self, ctx: Context, name: bytes) -> _Function | None:
        """None for one that is stitched at once."""
        function = self._functions.get(name)
        if function is not None:
            return function
        if not graph_hook.is_on_here() or not may_wait(ctx, name):
            self._ready.add(name)
            return None
        with self._lock:
            self._forget()
            self._left.add(name.decode())
            return self._functions.setdefault(name, _Function())

    def _forget(self) -> None:
        if len(self._functions) + len(self._ready) < _MOST_FUNCTIONS:
            return
        exists = context().has_function
        self._ready = {name for name in self._ready if exists(name)}
        self._functions = {name: function for name, function in self._functions.items() if exists(name)}
        self._left = {graph for graph in self._left if exists(graph)}

    def _prepare(self, function: _Function, ctx: Context, name: bytes, *call: Any) -> None:
        try:
            instantiate(ctx, name, *call)
            self._build(name.decode())
        except CancelledError:  # the program ends
            return
        except Exception as error:  # TensorFlow's graph goes on
            function.failed = True
            self._failed(name.decode(), error)
            return
        with self._lock:
            self._ready.add(name)
            self._functions.pop(name, None)


def call_with(original: Call, ctx: Context, executor: str, *arguments: Any) -> Any:
    """Calls a function by an executor. The option goes with the call alone: what is traced, and may be saved, must not
    need ours."""
    options = ctx.function_call_options  # of this thread
    options.executor_type = executor
    try:
        return original(ctx, *arguments)
    finally:
        options.executor_type = None


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


def may_wait(ctx: Context, name: bytes) -> bool:
    """Whether two instances of a function, one after the other, compute what one does."""
    if ctx.num_gpus() or ctx.device_name or ctx.is_async() or is_op_determinism_enabled():
        return False
    try:
        definition = ctx.get_function_def(name.decode())
        if definition.attr["_XlaMustCompile"].b:
            return False
        return all(map(_keeps_no_state, _nodes(ctx, definition, set())))
    except tf.errors.NotFoundError:  # of a function that it calls
        return False


def _nodes(ctx: Context, definition: FunctionDef, seen: set[str]) -> Iterator[NodeDef]:
    """Of a function and all that it calls."""
    for node in definition.node_def:
        yield node
        for value in node.attr.values():
            for called in (value.func, *value.list.func) if value.HasField("func") or value.list.func else ():
                if called.name and called.name not in seen:
                    seen.add(called.name)
                    yield from _nodes(ctx, ctx.get_function_def(called.name), seen)


def _keeps_no_state(node: NodeDef) -> bool:
    op = op_def_registry.get(node.op)
    if op is None:
        return False
    if not op.is_stateful or node.op.startswith(_STATE_ELSEWHERE):
        return True
    seeds = [node.attr[key].i for key in ("seed", "seed2") if key in node.attr]
    return len(seeds) == 2 and not any(seeds)  # random numbers that nobody can foresee
