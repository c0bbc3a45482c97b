"""Runs the CUDA source of a region on this machine: g++ compiles it as it is, cuda_on_cpu.h stands for the GPU, and an
adversary decides which thread goes on where several can (fibres.cc)."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from tests.differential.redzones import FILL, Guarded, spread
from tests.differential.runner import Array, Values, add_written, results_by_key
from tests.support.shared_cache import compiler_version, kept, text_of
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir.side_by_side import cluster_of
from tf_stitch.placement.executable import COUNTER_BYTES, BufferRef, Copy, DeviceLaunch, LibraryStep
from tf_stitch.placement.executable_format import Space, StateMode

HERE = Path(__file__).parent
CUDA_MACHINE = '#include "cuda_on_cpu.h"'
SHARED_ROOM = 1 << 18
"""Bytes, as in cuda_on_cpu.h: what kernels' dynamic shared memory may take."""
RESIDENT = 3
"""Blocks, or clusters, that run at one time where they do not wait for each other."""
ZONE, UNALIGNED = 4096, 8
"""Bytes of the zones around a buffer, and off it where kernels may rely on no more than the alignment of elements."""
FLAGS = ("-std=c++17", "-w", "-fPIC", "-shared", "-U_FORTIFY_SOURCE")
"""Ubuntu's g++ has fortified functions by default, whose longjmp ends the process where it changes stacks."""
OWN = ("-fvisibility=hidden", "-fno-gnu-unique")
"""No library shares the static shared memory of a template with another."""
CHECKS = ("-fsanitize=alignment,bounds", "-ftrivial-auto-var-init=pattern", "-fwrapv", "-ffp-contract=off")
LAUNCHES = ("-O1", *FLAGS, *OWN, *CHECKS)


class Order(IntEnum):
    """Who goes on, see fibres.cc."""

    AHEAD = 0
    BEHIND = 1
    ABREAST = 2
    SHUFFLED = 3


class LaunchError(AssertionError):
    """A launch does what no launch may: threads that wait for ever, an access outside of an array or not aligned."""


@dataclass(frozen=True)
class Adversary:
    order: Order
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.order.name.lower()}{self.seed or ''}"


ADVERSARIES = (*map(Adversary, Order), Adversary(Order.SHUFFLED, 1))


def run_on_cpu(graph: TensorGraph, region: CompiledRegion, values: Values, adversary: Adversary, runs: int = 1,
               aligned: bool = True, last: int | None = None, machine: str = CUDA_MACHINE) -> Values:
    """Outputs and new values of variables. Memory that a kernel has to write starts as NaN; every buffer lies between
    zones that have to stay as they are. So do values of the arena with BEHIND; else they lie where they are planned to.

    Args:
        runs: the steps once more, on the same memory and counters.
        aligned: what the region was compiled for.
        last: only so many blocks of each launch run, the last ones.
        machine: what stands for the device, before the source.

    Raises:
        LaunchError, RedzoneError: see there.
    """
    values = add_written(graph, values)
    library = build(region.source, machine) if region.source else None
    apart = adversary.order is Order.BEHIND
    executable, gaps = spread(region, ZONE) if apart else (region.executable, [])
    guarded = Guarded(ZONE, 0 if aligned else UNALIGNED, on_gpu=False)
    ins = [guarded.hold(key, values[key]) for key in executable.inputs]
    current = [guarded.hold(key, values[key]) for key in executable.variables]
    outs = [guarded.allocate(t.nbytes) for t in executable.outputs]
    fresh = [guarded.allocate(current[v].nbytes) for v, _ in executable.state]
    arena = guarded.allocate(executable.arena_bytes)
    guarded.watch("arena", arena, gaps)
    grids = sum(step.grid for step in executable.steps if isinstance(step, DeviceLaunch) and step.cooperative)
    counters = np.zeros(grids * COUNTER_BYTES + 1, np.uint8)
    spaces = {Space.INPUT: ins, Space.OUTPUT: outs, Space.VARIABLE: current, Space.FRESH: fresh}

    def memory(ref: BufferRef) -> Array:
        if ref.space is Space.ARENA:
            return arena[ref.index:]
        return counters[ref.index * COUNTER_BYTES:] if ref.space is Space.BARRIER else spaces[ref.space][ref.index]

    for _ in range(runs):
        guarded.check()
        for garbage in (arena, *outs, *fresh):
            garbage[...] = FILL
        for output, given in executable.updated:
            outs[output][...] = ins[given]
        for step in executable.steps:
            if isinstance(step, DeviceLaunch):
                assert library is not None
                programs = region.programs[step.symbol]
                launch(library, step, [memory(ref).ctypes.data for ref in step.args], cluster_of(programs), adversary,
                       last, programs[0].warp)
            elif isinstance(step, LibraryStep):
                step.call.reference([memory(a)[:size] for a, size
                                     in zip(step.args, step.call.operand_bytes(), strict=True)])
            else:
                assert isinstance(step, Copy)
                memory(step.target)[:step.nbytes] = memory(step.source)[:step.nbytes]
    guarded.check()
    results = [m[:t.nbytes].view(t.dtype.numpy).reshape(t.dims) for m, t in zip(outs, executable.outputs, strict=True)]
    state = {}
    for i, (v, mode) in enumerate(executable.state):
        name = executable.variables[v]
        found = current[v] if mode is StateMode.IN_PLACE else fresh[i]
        state[name] = found[:values[name].nbytes].view(values[name].dtype).reshape(values[name].shape)
    return results_by_key(graph, results, state)


def launch(library: ctypes.CDLL, step: DeviceLaunch, addresses: Sequence[int], cluster: int, adversary: Adversary,
           last: int | None = None, warp: int = 32) -> None:
    """
    Raises:
        LaunchError: it went wrong.
    """
    words = (ctypes.c_uint64 * (len(addresses) + len(step.sizes)))(*addresses, *step.sizes)
    library.shared_room.restype = ctypes.c_void_p
    kernel = ctypes.cast(getattr(library, f"call_{step.symbol}"), ctypes.c_void_p)
    first = max(0, step.grid - last) if last else 0
    resident = step.grid if step.cooperative else RESIDENT * cluster
    error = scheduler().tfs_run(kernel, words, step.grid, first, step.threads, warp, cluster, resident,
                                ctypes.c_void_p(library.shared_room()), ctypes.c_uint64(SHARED_ROOM),
                                ctypes.c_uint64(step.shared_bytes), int(adversary.order),
                                ctypes.c_uint64(adversary.seed))
    if error:
        raise LaunchError(f"{step.symbol}, {adversary}: {error.decode()}")


def build(source: str, machine: str = CUDA_MACHINE) -> ctypes.CDLL:
    """A library of the launches in a source, which is compiled as it is."""
    symbols = re.findall(r"__launch_bounds__\([^)]*\) (\w+)\(", source)
    assert symbols
    return ctypes.CDLL(str(_built(source, tuple(symbols), machine)))


@cache
def _built(source: str, symbols: tuple[str, ...], machine: str) -> Path:
    scheduler()
    calls = "\n".join(f"TFS_LAUNCH({symbol})" for symbol in symbols)
    text = f'{machine}\n{source}\n{calls}\n'

    def make() -> bytes:
        _precompile_header()
        path = _folder() / "on_cpu.cpp"
        path.write_text(text)
        return _compiled([*LAUNCHES, f"-I{_folder()}", f"-I{HERE}", "-nodefaultlibs", str(path),
                          str(_scheduler_path()), "-lm", "-lc", "-lgcc"])

    headers = text_of(*sorted(HERE.glob("*.h")))
    return kept([text, *LAUNCHES, str(_scheduler_path()), headers, compiler_version("g++")], ".so", make)


@lru_cache(maxsize=1)
def _precompile_header() -> None:
    """Half of the time of a small source goes into the header. g++ looks for this form of it in each folder first."""
    header = HERE / "cuda_on_cpu.h"
    _compile([*LAUNCHES, "-x", "c++-header", str(header), "-o", str(_folder() / f"{header.name}.gch")])


@lru_cache(maxsize=1)
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="tf_stitch_on_cpu_"))


@lru_cache(maxsize=1)
def _scheduler_path() -> Path:
    source, flags = HERE / "fibres.cc", ("-O2", *FLAGS)
    return kept([text_of(source, *sorted(HERE.glob("*.h"))), *flags, compiler_version("g++")], ".so",
                lambda: _compiled([*flags, str(source)]))


@lru_cache(maxsize=1)
def scheduler() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_scheduler_path()), mode=ctypes.RTLD_GLOBAL)
    library.tfs_run.restype = ctypes.c_char_p
    return library


def _compiled(arguments: Sequence[str]) -> bytes:
    made = _folder() / "made.so"
    _compile(["-o", str(made), *arguments])
    return made.read_bytes()


def _compile(arguments: Sequence[str]) -> None:
    done = subprocess.run(["g++", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
