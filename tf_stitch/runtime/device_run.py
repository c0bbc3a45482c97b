"""Runs and times GPU executables through CuPy, without TensorFlow. Importing it needs no GPU, and no CuPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tf_stitch.errors import BuildError
from tf_stitch.ir.dtypes import DType
from tf_stitch.placement.executable import COUNTER_BYTES, BufferRef, Copy, DeviceLaunch, Executable
from tf_stitch.placement.executable_format import Space, StateMode
from tf_stitch.runtime.timed_kernel import TimedKernel

STATIC_SHARED_BYTES = 48 * 1024
"""A launch that wants more has to ask for it."""
GARBAGE = 0xAB
"""What memory holds before a kernel writes it: a result that was not written shows."""
GROUPS = 5
"""Of launches that are timed; the median counts."""
GROUP_US, LONGEST_GROUP = 1000, 100
"""A timed group of launches takes about that long, and no more launches than the driver's queue takes."""


def gpu_is_here() -> bool:
    """Whether CuPy finds a device."""
    try:
        import cupy
    except ImportError:
        return False
    try:
        return bool(cupy.cuda.runtime.getDeviceCount() > 0)
    except (cupy.cuda.runtime.CUDARuntimeError, RuntimeError):
        return False


class DeviceExecutable:
    """An executable bound to memory; calling it enqueues its steps on the current stream.

    Attributes:
        arena: memory in which steps leave values for others.
        outputs: what each call writes, in the executable's order: CuPy arrays of bytes.
        state: by name, where each variable that gets a new value has it after a call; bytes too. One that is updated
            in place is updated in the array given.
    """

    def __init__(self, executable: Executable, cubin: Path | None, inputs: Mapping[str, Any],
                 variables: Mapping[str, Any], allocate: Callable[[int], Any] | None = None) -> None:
        """
        Args:
            cubin: may be None if nothing is launched.
            inputs, variables: contiguous CuPy arrays by name.
            allocate: gives this many bytes for the arena and for what steps write; without it they hold garbage.
        """
        import cupy
        self._module = cupy.RawModule(path=str(cubin)) if cubin else None
        allocate = allocate or _garbage
        self.arena = allocate(executable.arena_bytes)
        counters = sum(step.grid for step in executable.steps if isinstance(step, DeviceLaunch) and step.cooperative)
        self._counters = cupy.zeros(counters * COUNTER_BYTES, cupy.uint8)
        self.outputs = [allocate(t.nbytes) for t in executable.outputs]
        current = [variables[name] for name in executable.variables]
        fresh = [allocate(current[number].nbytes) for number, _ in executable.state]
        self.state = {executable.variables[number]: current[number] if mode is StateMode.IN_PLACE else fresh[i]
                      for i, (number, mode) in enumerate(executable.state)}
        self._arrays: dict[Space, Sequence[Any]] = {
            Space.INPUT: [inputs[name] for name in executable.inputs], Space.OUTPUT: self.outputs,
            Space.VARIABLE: current, Space.FRESH: fresh}
        first = [Copy(BufferRef(Space.OUTPUT, output), BufferRef(Space.INPUT, given), executable.outputs[output].nbytes)
                 for output, given in executable.updated]
        self._steps = [self._bind(step) for step in (*first, *executable.steps)]

    def __call__(self) -> None:
        for step in self._steps:
            step()

    def _address(self, ref: BufferRef) -> int:
        if ref.space is Space.ARENA:
            return int(self.arena.data.ptr) + ref.index
        if ref.space is Space.BARRIER:
            return int(self._counters.data.ptr) + ref.index * COUNTER_BYTES
        return int(self._arrays[ref.space][ref.index].data.ptr)

    def _bind(self, step: object) -> Callable[[], None]:
        import cupy
        if isinstance(step, DeviceLaunch):
            assert self._module is not None
            return bind_launch(self._module, step.symbol, step.grid, step.threads, step.shared_bytes,
                               [*map(self._address, step.args), *step.sizes], step.cooperative)
        if isinstance(step, Copy):
            target, source, nbytes = self._address(step.target), self._address(step.source), step.nbytes
            kind = cupy.cuda.runtime.memcpyDeviceToDevice
            return lambda: cupy.cuda.runtime.memcpyAsync(target, source, nbytes, kind,
                                                         cupy.cuda.get_current_stream().ptr)
        raise BuildError(f"a step {type(step).__name__} does not run on a GPU")


def bind_launch(module: Any, symbol: str, grid: int, threads: int, shared_bytes: int, words: Sequence[int],
                cooperative: bool = False) -> Callable[[], None]:
    """A call that enqueues one launch on the current stream.

    Args:
        words: the kernel's arguments: addresses, then sizes.

    Raises:
        BuildError: a cooperative launch of more blocks than the device holds: its grid barrier would never end.
    """
    kernel = module.get_function(symbol)
    if shared_bytes + kernel.shared_size_bytes > STATIC_SHARED_BYTES:
        kernel.max_dynamic_shared_size_bytes = shared_bytes
    arguments = tuple(np.uint64(word) for word in words)
    function = kernel.kernel
    if cooperative:
        _require_resident(function, grid, threads, shared_bytes)
    return lambda: function((grid, 1, 1), (threads, 1, 1), arguments, shared_bytes, None, cooperative)


def _require_resident(function: Any, grid: int, threads: int, shared_bytes: int) -> None:
    import cupy
    blocks = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, threads, shared_bytes)
    room = blocks * cupy.cuda.Device().attributes["MultiProcessorCount"]
    if grid > room:
        raise BuildError(f"a cooperative launch of {grid} blocks on a device that holds {room}")


def _garbage(nbytes: int) -> Any:
    import cupy
    return cupy.full(max(nbytes, 1), GARBAGE, cupy.uint8)


def queued_us(call: Callable[[], None]) -> float:
    """Median microseconds of a call that enqueues work on the current stream.

    The host takes longer to enqueue a small kernel than the device to run it. So a kernel that waits goes first, and
    the group behind it, between two events, runs as fast as the device takes it.
    """
    import cupy
    call()
    cupy.cuda.get_current_stream().synchronize()
    once = _group_us(call, 3, 300.0)
    runs = int(min(max(GROUP_US / max(once, 0.1), 3), LONGEST_GROUP))
    start = time.perf_counter()
    for _ in range(runs):
        call()
    wait = (time.perf_counter() - start) * 2e6 + 100
    return median(_group_us(call, runs, wait) for _ in range(GROUPS))


def _group_us(call: Callable[[], None], runs: int, wait: float) -> float:
    import cupy
    before, after = cupy.cuda.Event(), cupy.cuda.Event()
    _waiting_kernel()((1,), (1,), (np.int64(wait * 1e3),))
    before.record()
    for _ in range(runs):
        call()
    after.record()
    after.synchronize()
    return float(cupy.cuda.get_elapsed_time(before, after)) * 1e3 / runs


_WAIT = r"""
extern "C" __global__ void tfs_wait(long long nanoseconds) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - start < nanoseconds);
}
"""
_kernels: dict[int, Any] = {}


def _waiting_kernel() -> Any:
    import cupy
    device = cupy.cuda.Device().id
    if device not in _kernels:
        _kernels[device] = cupy.RawKernel(_WAIT, "tfs_wait")
    return _kernels[device]


def time_on_device(cubin: Path, kernels: Sequence[TimedKernel], ordinal: int = 0) -> list[float]:
    """Microseconds of each kernel in a queue of its like, over the same memory each time; NaN where memory is short.

    Raises:
        BuildError: there is no CuPy.
    """
    try:
        import cupy
    except ImportError as error:
        raise BuildError(f"CuPy is not available ({error}); install cupy-cuda12x or cupy-cuda13x") from None
    with cupy.cuda.Device(ordinal):
        return _times(cubin, kernels)


def time_apart_on_device(cubin: Path, kernels: Sequence[TimedKernel], ordinal: int = 0) -> float:
    """Microseconds of kernels that need nothing of each other, each in a launch: one behind the other or each in a
    stream of its own, whichever is faster; NaN where memory is short.

    Raises:
        BuildError: there is no CuPy.
    """
    try:
        import cupy
    except ImportError as error:
        raise BuildError(f"CuPy is not available ({error}); install cupy-cuda12x or cupy-cuda13x") from None
    with cupy.cuda.Device(ordinal):
        module = cupy.RawModule(path=str(cubin))
        try:
            bound = [bind_alone(module, kernel) for kernel in kernels]
            calls = [call for call, _ in bound]
            return min(queued_us(lambda: _in_turn(calls)), queued_us(_side_streams(calls)))
        except cupy.cuda.memory.OutOfMemoryError:
            return float("nan")
        finally:
            bound = []
            cupy.get_default_memory_pool().free_all_blocks()


def _in_turn(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


def _side_streams(calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """A call of all, each in a stream, between two points of the current one."""
    import cupy
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in calls]
    begin, *ends = [cupy.cuda.Event(disable_timing=True) for _ in range(len(calls) + 1)]

    def together() -> None:
        current = cupy.cuda.get_current_stream()
        begin.record(current)
        for stream, call, end in zip(streams, calls, ends, strict=True):
            stream.wait_event(begin)
            with stream:
                call()
            end.record(stream)
            current.wait_event(end)

    return together


def _times(cubin: Path, kernels: Sequence[TimedKernel]) -> list[float]:
    import cupy
    module = cupy.RawModule(path=str(cubin))
    times: list[float] = []
    for kernel in kernels:
        try:
            call, memory = bind_alone(module, kernel)
            times.append(queued_us(call))
            del call, memory
        except cupy.cuda.memory.OutOfMemoryError:
            times.append(float("nan"))
        cupy.get_default_memory_pool().free_all_blocks()
    return times


def bind_alone(module: Any, kernel: TimedKernel) -> tuple[Callable[[], None], list[Any]]:
    """A call that enqueues a kernel over memory of its own, and that memory, which has to stay as long."""
    import cupy
    memory = [random_memory(*buffer) for buffer in kernel.buffers]
    if kernel.cooperative:
        memory.append(cupy.zeros(kernel.grid * COUNTER_BYTES, cupy.uint8))
    addresses = [int(m.data.ptr) for m in memory]
    return bind_launch(module, kernel.symbol, kernel.grid, kernel.threads, kernel.shared_bytes, addresses,
                       kernel.cooperative), memory


def random_memory(dtype: str, size: int, read: bool) -> Any:
    """Numbers from 0.5 to 1.5, small integers from 1, or garbage that is not read; half types as bytes."""
    import cupy
    kind = DType(dtype)
    if not read:
        return _garbage(size * kind.size)
    if kind in (DType.F32, DType.F64):
        return cupy.random.random_sample(size, dtype=kind.numpy) + kind.numpy.type(0.5)
    if kind.is_real:  # one value's bits, 1.0
        one = np.ones((), kind.numpy).view(f"u{kind.size}")
        return cupy.full(size, one, one.dtype)
    if kind is DType.BOOL:
        return cupy.random.randint(0, 2, size).astype(cupy.uint8)
    return cupy.random.randint(1, 1000, size, dtype=cupy.int32).astype(kind.numpy)
