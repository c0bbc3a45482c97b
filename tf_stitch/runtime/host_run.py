"""Runs a CPU executable on NumPy arrays, in the calling thread: for tests and the py_function wrapping."""

from __future__ import annotations

import _ctypes
import ctypes
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import BuildError
from tf_stitch.placement.executable import ALIGNMENT, BufferRef, Copy, Executable, HostLaunch, LibraryStep
from tf_stitch.placement.executable_format import Space

_RANGE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
                                 ctypes.c_void_p)


class _Env(ctypes.Structure):
    _fields_ = [("impl", ctypes.c_void_p), ("num_threads", ctypes.c_int64), ("parallel_for", _PARALLEL_FOR)]


def _serial_for(impl: int, total: int, cost: int, function: int, arg: int) -> None:
    _RANGE(function)(arg, 0, total)


_SERIAL_FOR = _PARALLEL_FOR(_serial_for)
_ENV = _Env(None, 1, _SERIAL_FOR)


class HostExecutable:
    """A CPU executable with its libraries loaded, as long as it lives."""

    def __init__(self, executable: Executable, *libraries: Path) -> None:
        self.executable = executable
        names = {s.symbol for s in executable.steps if isinstance(s, HostLaunch)}
        self._functions: dict[str, Any] = {}
        for path in libraries:
            try:
                library = ctypes.CDLL(str(path))
            except OSError as error:
                raise BuildError(f"cannot load {path}: {error}") from None
            weakref.finalize(self, _ctypes.dlclose, library._handle).atexit = False
            self._functions |= {n: getattr(library, n) for n in names if hasattr(library, n)}

    def addresses(self) -> dict[str, int]:
        """Address of every kernel that a step calls."""
        return {n: ctypes.cast(f, ctypes.c_void_p).value or 0 for n, f in sorted(self._functions.items())}

    def run(self, inputs: Mapping[str, NDArray[Any]], variables: Mapping[str, NDArray[Any]]
            ) -> tuple[list[NDArray[Any]], dict[str, NDArray[Any]]]:
        """Outputs, and the new value of every variable that got one; the arrays given are not written to.

        Raises:
            BuildError: a kernel reports failure (an index out of range).
        """
        e = self.executable
        ins = [aligned_copy(inputs[key]) for key in e.inputs]
        current = [aligned_copy(variables[key]) for key in e.variables]
        outs = [aligned_empty(t.dims, t.dtype.numpy) for t in e.outputs]
        fresh = [aligned_empty(current[v].shape, current[v].dtype) for v, _ in e.state]
        arena = aligned_empty((max(e.arena_bytes, 1),), np.dtype(np.uint8))
        for output, source in e.updated:
            outs[output][...] = ins[source]
        spaces = {Space.INPUT: ins, Space.OUTPUT: outs, Space.VARIABLE: current, Space.FRESH: fresh}

        def address(ref: BufferRef) -> int:
            if ref.space is Space.ARENA:
                return arena.ctypes.data + ref.index
            return int(spaces[ref.space][ref.index].ctypes.data)

        for step in e.steps:
            if isinstance(step, HostLaunch):
                sizes = (ctypes.c_int64 * len(step.sizes))(*step.sizes)
                pointers = [address(a) for a in step.args] + ([ctypes.addressof(sizes)] if step.sizes else [])
                args = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
                if self._functions[step.symbol](ctypes.byref(_ENV), args):
                    raise BuildError("a stitched kernel met an index out of range")
            elif isinstance(step, LibraryStep):
                step.call.reference([_memory(address(a), size) for a, size
                                     in zip(step.args, step.call.operand_bytes(), strict=True)])
            elif isinstance(step, Copy):
                ctypes.memmove(address(step.target), address(step.source), step.nbytes)
        state = {e.variables[v]: current[v] if mode == 0 else fresh[i] for i, (v, mode) in enumerate(e.state)}
        return outs, state


def _memory(address: int, nbytes: int) -> NDArray[np.uint8]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An uninitialised array at a multiple of ALIGNMENT bytes."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start:start + nbytes].view(dtype).reshape(shape)


def aligned_copy(x: NDArray[Any]) -> NDArray[Any]:
    """A contiguous copy at a multiple of ALIGNMENT bytes."""
    out = aligned_empty(x.shape, x.dtype)
    out[...] = x
    return out
