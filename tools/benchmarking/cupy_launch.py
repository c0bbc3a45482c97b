"""Runs a GPU executable on CuPy arrays: for measurements without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cupy

from tf_stitch.runtime.executable import BufferRef, Copy, DeviceLaunch, Executable, Space, StateMode

STATIC_SHARED_BYTES = 48 * 1024
"""A launch that wants more has to ask for it."""


class CupyExecutable:
    """An executable bound to buffers; calling it enqueues its steps on the current stream.

    Attributes:
        outputs: arrays that each call writes, in the executable's order.
        state: new values of variables by name: the array given for one updated in place, else a fresh one.
    """

    def __init__(self, executable: Executable, cubin: Path, inputs: Mapping[str, Any], variables: Mapping[str, Any]
                 ) -> None:  # fmt: skip
        self._module = cupy.RawModule(path=str(cubin))
        self._arena = cupy.empty(max(executable.arena_bytes, 1), cupy.uint8)
        self.outputs = [cupy.empty(t.dims, t.dtype.numpy) for t in executable.outputs]
        current = [variables[name] for name in executable.variables]
        fresh = [cupy.empty_like(current[number]) for number, _ in executable.state]
        self.state = {executable.variables[number]: current[number] if mode is StateMode.IN_PLACE else fresh[i]
                      for i, (number, mode) in enumerate(executable.state)}  # fmt: skip
        self._arrays = {Space.INPUT: [inputs[name] for name in executable.inputs], Space.OUTPUT: self.outputs,
                        Space.VARIABLE: current, Space.FRESH: fresh}  # fmt: skip
        self._steps = [self._bind(step) for step in executable.steps]

    def __call__(self) -> None:
        for step in self._steps:
            step()

    def _address(self, ref: BufferRef) -> int:
        if ref.space is Space.ARENA:
            return int(self._arena.data.ptr) + ref.index
        return int(self._arrays[ref.space][ref.index].data.ptr)

    def _bind(self, step: object) -> Callable[[], None]:
        if isinstance(step, DeviceLaunch):
            return self._bind_launch(step)
        if isinstance(step, Copy):
            target, source, nbytes = self._address(step.target), self._address(step.source), step.nbytes
            kind = cupy.cuda.runtime.memcpyDeviceToDevice
            return lambda: cupy.cuda.runtime.memcpyAsync(target, source, nbytes, kind,
                                                         cupy.cuda.get_current_stream().ptr)  # fmt: skip
        raise TypeError(f"a step {type(step).__name__} does not run on a GPU")

    def _bind_launch(self, step: DeviceLaunch) -> Callable[[], None]:
        kernel = self._module.get_function(step.symbol)
        if step.shared_bytes > STATIC_SHARED_BYTES:
            kernel.max_dynamic_shared_size_bytes = step.shared_bytes
        arguments = tuple(cupy.uint64(self._address(ref)) for ref in step.args)
        return lambda: kernel((step.grid,), (step.threads,), arguments, shared_mem=step.shared_bytes)
