"""Compiles, runs and times kernels on a GPU, through CuPy. Importing it needs no GPU, and no CuPy."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

import numpy as np

from tf_stitch.errors import BuildError
from tf_stitch.hfuse.arguments import Argument, Array
from tf_stitch.hfuse.fuse import Fused
from tf_stitch.hfuse.launch import MOST_STATIC_BYTES, Shape
from tf_stitch.hfuse.search import Processor, Profile
from tf_stitch.hfuse.source import Kernel

OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "--fmad=false")
"""No multiplication is merged with an addition: fused and separate kernels round alike."""
WARM_MS = 500
"""A GPU is kept busy that long before the first measurement."""
_TIMED_MS, _FEWEST, _MOST = 12.0, 5, 51
"""Launches are timed for about that long; this many of them."""
_ENQUEUED_US = 150
"""What enqueueing a pair of launches and their events surely takes, in two streams, from Python."""
HOLD = """
extern "C" __global__ void hold(long long us) {
  long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begin < us * 1000);
}
"""
"""A kernel that does nothing for some microseconds."""


@dataclass(frozen=True)
class Code:
    """A source and a kernel of it.

    Attributes:
        name: in the binary, or, of a template, as C++ names it.
    """

    source: str
    name: str
    is_template: bool = False

    def module(self) -> Any:
        """Compiled, by CuPy, which keeps on disk what is no template."""
        import cupy
        names = {"name_expressions": (self.name,)} if self.is_template else {}
        return cupy.RawModule(code=self.source, options=OPTIONS, **names)


Modules = Callable[[Code], Any]
"""Compiles, or finds what was compiled before: a CuPy module."""


def code_of(kernel: Kernel) -> Code:
    """A kernel as it is written."""
    return Code(kernel.source.text.decode(), kernel.symbol or kernel.qualified, kernel.is_template)


class DeviceKernel:
    """A compiled kernel, bound to its launch.

    Attributes:
        registers, local_bytes: of a thread.
        shared_bytes: of a block, static.
    """

    def __init__(self, code: Code, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_bytes: int,
                 module_of: Modules = Code.module) -> None:
        """

        Raises:
            BuildError: the compiler or the device refuses it.
        """
        import cupy
        try:
            self._function = module_of(code).get_function(code.name)
            self.registers = int(self._function.num_regs)
            self.shared_bytes = int(self._function.shared_size_bytes)
            self.local_bytes = int(self._function.local_size_bytes)
            if dynamic_bytes + self.shared_bytes > MOST_STATIC_BYTES:
                self._function.max_dynamic_shared_size_bytes = dynamic_bytes
        except cupy.cuda.compiler.CompileException as error:
            raise BuildError(f"NVRTC refused {code.name}: {_first_error(str(error))}") from None
        except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
            raise BuildError(f"the device refused {code.name}: {error}") from None
        self.name, self.grid, self.block, self._dynamic = code.name, grid, block, dynamic_bytes

    def __call__(self, arguments: Sequence[Any]) -> None:
        """Enqueues a launch on the current stream.

        Raises:
            BuildError: the device refuses the launch.
        """
        import cupy
        try:
            self._function(self.grid, self.block, tuple(arguments), shared_mem=self._dynamic)
        except cupy.cuda.driver.CUDADriverError as error:
            raise BuildError(f"the device refused to launch {self.name}: {error}") from None

    def profile(self, ms: float) -> Profile:
        """With the time that it took."""
        return Profile(ms, self.registers, self.shared_bytes, self.local_bytes)


def alone(kernel: Kernel, shape: Shape, module_of: Modules = Code.module) -> DeviceKernel:
    """A kernel as it is written."""
    return DeviceKernel(code_of(kernel), shape.grid, shape.block, shape.dynamic_bytes, module_of)


def fused_kernel(fused: Fused, module_of: Modules = Code.module) -> DeviceKernel:
    """A fused one."""
    return DeviceKernel(Code(fused.source, fused.symbol), (fused.blocks, 1, 1), (fused.threads, 1, 1),
                        fused.dynamic_bytes, module_of)


class DeviceProfiler:
    """Profiles kernels with arguments that are given: search.Profiler."""

    def __init__(self, kernels: Sequence[Kernel], arguments: Sequence[Sequence[Any]],
                 module_of: Modules = Code.module) -> None:
        self._kernels, self._arguments, self._module_of = kernels, arguments, module_of
        self._alone: dict[tuple[int, Shape], DeviceKernel] = {}

    def compiled(self, index: int, shape: Shape) -> DeviceKernel:
        """Kernel number `index`, compiled once."""
        key = (index, shape)
        if key not in self._alone:
            self._alone[key] = alone(self._kernels[index], shape, self._module_of)
        return self._alone[key]

    def alone(self, index: int, shape: Shape) -> Profile:
        return self.compiled(index, shape).profile(0.0)

    def fused(self, fused: Fused) -> Profile:
        kernel = fused_kernel(fused, self._module_of)
        arguments = [*self._arguments[0], *self._arguments[1]]
        return kernel.profile(time_ms(lambda: kernel(arguments)))

    def alone_ms(self, index: int, shape: Shape) -> float:
        """Milliseconds of one kernel alone."""
        kernel = self.compiled(index, shape)
        return time_ms(lambda: kernel(self._arguments[index]))

    def streams_ms(self, shapes: Sequence[Shape]) -> float:
        """Milliseconds of both, each in a stream of its own."""
        kernels = [self.compiled(i, shape) for i, shape in enumerate(shapes)]
        return time_streams_ms([lambda k=k, a=a: k(a)  # type: ignore[misc]
                                for k, a in zip(kernels, self._arguments, strict=True)])


def require_device() -> None:
    """
    Raises:
        BuildError: there is no GPU, or no CuPy.
    """
    try:
        import cupy
    except ImportError as error:
        raise BuildError(f"a search needs CuPy, and a GPU: {error}") from None
    try:
        found = cupy.cuda.runtime.getDeviceCount() > 0
    except (cupy.cuda.runtime.CUDARuntimeError, RuntimeError) as error:
        raise BuildError(f"a search needs a GPU: {error}") from None
    if not found:
        raise BuildError("a search needs a GPU, and there is none")


def on_device(arguments: Sequence[Argument]) -> list[Any]:
    """What kernels are given, made and copied."""
    import cupy
    return [cupy.asarray(a.make(i)) if isinstance(a, Array) else a for i, a in enumerate(arguments)]


def processor() -> Processor:
    """The processor of the current device."""
    import cupy
    facts = cupy.cuda.Device().attributes
    return Processor(facts["MaxRegistersPerMultiprocessor"], facts["MaxSharedMemoryPerMultiprocessor"],
                     facts["MaxThreadsPerMultiProcessor"])


def warm_up() -> None:
    """Keeps the device busy until its clock is up."""
    import cupy
    memory = cupy.ones(1 << 24, cupy.float32)
    passed = 0.0
    while passed < WARM_MS:
        passed += _timed(lambda: cupy.multiply(memory, memory, out=memory), 50) * 50


def time_ms(call: Callable[[], None]) -> float:
    """Median milliseconds of what `call` enqueues."""
    once = min(_timed(call, 1), _timed(call, 1))
    return median(_times_ms(call, int(min(max(_TIMED_MS / max(once, 1e-3), _FEWEST), _MOST))))


def _times_ms(call: Callable[[], None], repeats: int) -> list[float]:
    """Of each repeat. All are enqueued while the device still holds: what enqueueing takes, more in two streams than in
    one, is no part of them."""
    import cupy
    _hold()((1,), (1,), (np.int64(_ENQUEUED_US * repeats),))
    events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(repeats)]
    for begin, end in events:
        begin.record()
        call()
        end.record()
    events[-1][1].synchronize()
    return [float(cupy.cuda.get_elapsed_time(begin, end)) for begin, end in events]


@cache
def _hold() -> Any:
    return Code(HOLD, "hold").module().get_function("hold")


def time_streams_ms(calls: Sequence[Callable[[], None]]) -> float:
    """Median milliseconds from the start of the first to the end of the last, each in a stream of its own."""
    import cupy
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in calls]

    def together() -> None:
        current = cupy.cuda.get_current_stream()
        begin = cupy.cuda.Event(disable_timing=True)
        begin.record(current)
        for stream, call in zip(streams, calls, strict=True):
            stream.wait_event(begin)
            with stream:
                call()
        for stream in streams:
            end = cupy.cuda.Event(disable_timing=True)
            end.record(stream)
            current.wait_event(end)

    return time_ms(together)


def _timed(call: Callable[[], None], repeats: int) -> float:
    import cupy
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end)) / repeats


def _first_error(log: str) -> str:
    found = re.search(r"error:?[^\n]*", log)
    return found[0] if found else log.strip()[:300]
