"""Compiles, runs and times kernels on a GPU, through CuPy. Importing it needs no GPU, and no CuPy."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

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
"""Launches are timed for about that long; so many of them."""


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


def code_of(kernel: Kernel) -> Code:
    """A kernel as it is written."""
    return Code(kernel.source.text.decode(), kernel.symbol or kernel.qualified, kernel.is_template)


class DeviceKernel:
    """A compiled kernel, bound to its launch.

    Attributes:
        registers, local_bytes: of a thread.
        shared_bytes: of a block, static.
    """

    def __init__(self, code: Code, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_bytes: int) -> None:
        """

        Raises:
            BuildError: the compiler or the device refuses it.
        """
        import cupy
        try:
            self._function = code.module().get_function(code.name)
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


def alone(kernel: Kernel, shape: Shape) -> DeviceKernel:
    """A kernel as it is written."""
    return DeviceKernel(code_of(kernel), shape.grid, shape.block, shape.dynamic_bytes)


def fused_kernel(fused: Fused) -> DeviceKernel:
    """A fused one."""
    return DeviceKernel(Code(fused.source, fused.symbol), (fused.blocks, 1, 1), (fused.threads, 1, 1),
                        fused.dynamic_bytes)


class DeviceProfiler:
    """Profiles kernels with arguments that are given: search.Profiler."""

    def __init__(self, kernels: Sequence[Kernel], arguments: Sequence[Sequence[Any]]) -> None:
        self._kernels, self._arguments = kernels, arguments
        self._alone: dict[tuple[int, Shape], DeviceKernel] = {}

    def compiled(self, index: int, shape: Shape) -> DeviceKernel:
        """Kernel number `index`, compiled once."""
        key = (index, shape)
        if key not in self._alone:
            self._alone[key] = alone(self._kernels[index], shape)
        return self._alone[key]

    def alone(self, index: int, shape: Shape) -> Profile:
        return self.compiled(index, shape).profile(0.0)

    def fused(self, fused: Fused) -> Profile:
        kernel = fused_kernel(fused)
        arguments = [*self._arguments[0], *self._arguments[1]]
        return kernel.profile(time_ms(lambda: kernel(arguments)))

    def alone_ms(self, index: int, shape: Shape) -> float:
        """Of one kernel by itself."""
        kernel = self.compiled(index, shape)
        return time_ms(lambda: kernel(self._arguments[index]))

    def streams_ms(self, shapes: Sequence[Shape]) -> float:
        """Of both, each in a stream of its own."""
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
    """Of the current device."""
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
    once = _timed(call, 1)
    once = min(once, _timed(call, 1))
    repeats = int(min(max(_TIMED_MS / max(once, 1e-3), _FEWEST), _MOST))
    return median(_timed(call, 1) for _ in range(repeats))


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
