"""Builds regions before they run: the first region of a graph to run shows the sizes that its other regions share."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

from tf_stitch.compiler_run import beside_the_program
from tf_stitch.errors import StitchError
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.interruption import interrupt_all, interruptible
from tf_stitch.ir.types import static_shape, substitute, unify
from tf_stitch.jit.interpreter_turns import short_turns

MOST_AWAITED = 32
"""Builds at once that callers wait for. One that TensorFlow runs side by side with others needs a thread of its own: no
other may end before it. Not measured; TensorFlow has as many threads as the machine has cores."""

T = TypeVar("T")
Shapes = tuple[tuple[int, ...], ...]
Traits = tuple[bool, bool]
"""What a signature says beside shapes: every buffer is aligned, matmuls of float32 may be taken in TF32."""
Prepare = Callable[[int, int, Shapes, Traits], None]


class Prebuilder:
    """Background builds, at most `workers` at once.

    Args:
        prepare: builds (region, device, shapes, traits) and keeps the result where the region's first run finds it.
    """

    def __init__(self, prepare: Prepare, workers: int) -> None:
        self._prepare = prepare
        self._workers = workers
        self._start()
        self._stopping = threading.Event()
        # At exit Python lets pools finish all that waits before it calls what atexit registered, and nothing public
        # comes before that: concurrent.futures itself registers here.
        try:
            threading._register_atexit(self.close)  # type: ignore[attr-defined]
        except RuntimeError:  # the program ends: pools take nothing any more
            self._stopping.set()
        self._groups: dict[int, dict[int, RegionGraph]] = {}
        self._group_of: dict[int, int] = {}
        self._seen: set[tuple[object, ...]] = set()
        self._lock = threading.Lock()
        self.seconds = 0.0
        """Processor time of the threads so far."""

    def _start(self) -> None:
        self._process = os.getpid()
        self._pool = ThreadPoolExecutor(max_workers=self._workers, thread_name_prefix="tf_stitch_build")
        self._awaited = ThreadPoolExecutor(max_workers=MOST_AWAITED, thread_name_prefix="tf_stitch_awaited")
        self._unfinished: set[Future[Any]] = set()

    def add(self, number: int, region: RegionGraph, group: int) -> None:
        """A region of graph `group`."""
        with self._lock:
            self._groups.setdefault(group, {})[number] = region
            self._group_of[number] = group

    def drop(self, number: int) -> None:
        """A region that will not run any more."""
        with self._lock:
            group = self._group_of.pop(number, None)
            if group is None:
                return
            del self._groups[group][number]
            if not self._groups[group]:
                del self._groups[group]
                self._seen = {key for key in self._seen if key[0] != group}

    def runs(self, number: int, device: int, shapes: Shapes, traits: Traits) -> None:
        """A region is about to run with these shapes: the others of its graph whose sizes follow are built."""
        with self._lock:
            group = self._group_of.get(number)
            if group is None:
                return
            sizes = _sizes(self._groups[group][number], shapes)
            key = (group, device, traits, tuple(sorted(sizes.items())))
            if key in self._seen:
                return
            self._seen.add(key)
            others = [(n, s) for n, region in self._groups[group].items()
                      if n != number and (s := _shapes(region, sizes)) is not None]
        for other, its_shapes in others:
            self.submit(partial(self._build, other, device, its_shapes, traits))

    def ahead(self, number: int, device: int, traits: Traits) -> Future[None] | None:
        """Builds a region that no run has asked for, if its sizes are known without one."""
        with self._lock:
            group = self._group_of.get(number)
            shapes = None if group is None else _shapes(self._groups[group][number], {})
        return None if shapes is None else self.submit(partial(self._build_beside, number, device, shapes, traits))

    def submit(self, build: Callable[[], T], awaited: bool = False) -> Future[T] | None:
        """Runs `build` beside the program, after what was submitted before, or at once if somebody waits for it. None
        if the program ends."""
        self._restart_after_fork()
        try:
            future = (self._awaited if awaited else self._pool).submit(self._timed, build)
        except RuntimeError:  # no more threads
            return None
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    def _timed(self, build: Callable[[], T]) -> T:
        start = time.thread_time()
        try:
            with interruptible(), short_turns():
                return build()
        finally:
            with self._lock:
                self.seconds += time.thread_time() - start

    def _restart_after_fork(self) -> None:
        if os.getpid() != self._process:  # without its parent's threads
            self._start()

    def finish(self, seconds: float) -> bool:
        """Waits until all is done that was submitted, and what that submits, so many seconds at most. Whether it is."""
        end = time.monotonic() + seconds
        while unfinished := list(self._unfinished):
            if time.monotonic() >= end:
                return False
            wait(unfinished, end - time.monotonic())
        return True

    def _build(self, number: int, device: int, shapes: Shapes, traits: Traits) -> None:
        try:
            self._prepare(number, device, shapes, traits)
        except StitchError:
            return  # the region's own run meets it again, falls back and reports it

    def _build_beside(self, number: int, device: int, shapes: Shapes, traits: Traits) -> None:
        """TensorFlow's graph runs meanwhile."""
        with beside_the_program():
            self._build(number, device, shapes, traits)

    @property
    def stopping(self) -> bool:
        """Long work should end: the program does."""
        return self._stopping.is_set()

    def close(self) -> None:
        """Drops what has not started, and interrupts what has."""
        self._stopping.set()
        for pool in (self._pool, self._awaited):
            pool.shutdown(wait=False, cancel_futures=True)
        interrupt_all()




def _sizes(region: RegionGraph, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Symbols that the shapes of a region's inputs and variables decide; empty if they contradict it."""
    sizes: dict[str, int] = {}
    try:
        for shape, actual in zip(region.argument_shapes, shapes, strict=True):
            unify(shape, actual, sizes)
    except StitchError:
        return {}
    return sizes


def _shapes(region: RegionGraph, sizes: dict[str, int]) -> Shapes | None:
    """Shapes of a region's inputs and variables, if the sizes decide all of them."""
    shapes = [substitute(shape, sizes) for shape in region.argument_shapes]
    if not all(isinstance(d, int) for shape in shapes for d in shape):
        return None
    return tuple(static_shape(shape) for shape in shapes)
