"""Where threads of this process spend their time, in Python or not, running or waiting: sampled stacks. Needs g++."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from tools.profiling.symbols import function_names

DEPTH = 96
MOST = 60_000
Stack = tuple[str, ...]
"""Functions, the outermost first."""


@cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        made = f"{folder}/stacks.so"
        subprocess.run(["g++", "-O2", "-shared", "-fPIC", "-pthread", str(Path(__file__).with_name("stacks.cc")), "-o",
                        made], check=True)  # fmt: skip
        library = ctypes.CDLL(made)
    library.start_sampling.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_int64]
    library.stop_sampling.argtypes = [ctypes.c_void_p]
    library.stop_sampling.restype = ctypes.c_int64
    return library


def sample(work: Callable[[], object], threads: Sequence[int], microseconds: float = 350.0) -> dict[int, list[Stack]]:
    """Stacks of threads (the system's numbers) while `work` runs, each taken about every so many microseconds."""
    library = _library()
    numbers = (ctypes.c_int64 * len(threads))(*threads)
    if library.start_sampling(numbers, len(threads), microseconds, MOST) != 0:
        raise OSError("no handler for SIGPROF")
    first = ctypes.c_void_p()
    try:
        work()
    finally:
        count = library.stop_sampling(ctypes.byref(first))
    words = (ctypes.c_uint64 * (count * (DEPTH + 2))).from_address(first.value or 0) if count else ()
    rows = np.array(words, np.uint64).reshape(-1, DEPTH + 2)
    frames = {i: [int(f) - (k > 0) for k, f in enumerate(row[4:2 + int(row[1])])] for i, row in enumerate(rows)}
    names = function_names(f for stack in frames.values() for f in stack)  # a return address is behind its call
    stacks: dict[int, list[Stack]] = {thread: [] for thread in threads}
    for i, row in enumerate(rows):
        stacks[int(row[0])].append(tuple(names[f] for f in reversed(frames[i])))
    return stacks


def thread_seconds() -> dict[int, tuple[str, float]]:
    """Thread -> its name, and the seconds that it has run."""
    found = {}
    for folder in Path("/proc/self/task").iterdir():
        thread = int(folder.name)
        try:
            found[thread] = (folder.joinpath("comm").read_text().strip(), time.clock_gettime(~thread << 3 | 6))
        except OSError:  # it has ended
            continue
    return found


def hottest(stacks: Sequence[Stack], whole: float, least: float) -> Iterator[str]:
    """Functions by how much of `whole` they were innermost in, those of `least` or more; both in the same unit."""
    for name, count in Counter(stack[-1] for stack in stacks if stack).most_common():
        if count * whole >= least * len(stacks):
            yield f"{count / len(stacks) * whole:8.1f}  {name}"


def tree(stacks: Sequence[Stack], whole: float, least: float, depth: int = 0, total: int = 0) -> Iterator[str]:
    """Who called whom, for how much of `whole`. A function that only passes on to one other has no line."""
    total = total or len(stacks)
    callees: dict[str, list[Stack]] = defaultdict(list)
    for stack in stacks:
        if stack:
            callees[stack[0]].append(stack[1:])
    for name, inner in sorted(callees.items(), key=lambda item: -len(item[1])):
        if len(inner) * whole < least * total:
            break
        passes_on = all(inner) and len({stack[0] for stack in inner}) == 1
        if not passes_on:
            yield f"{len(inner) / total * whole:8.1f}  {'  ' * depth}{name}"
        yield from tree(inner, whole, least, depth + (not passes_on), total)
