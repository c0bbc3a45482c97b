"""What a kind of device is to the compiler: passes, kernel families, libraries, source, builder, timer. What one device
of it can do is a DeviceSpec's, as data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.rendered import Packed, Rendered, parts_of
from tf_stitch.families.family import KernelFamily
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.libraries.call import Library
from tf_stitch.pass_manager import Pass
from tf_stitch.passes.context import PassContext
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.kernel_resources import KernelResources
from tf_stitch.runtime.timed_kernel import TimedKernel
from tf_stitch.targets.passes import Splitting

LARGE = 1 << 28
"""Bytes that no cache holds, as the matrices of a model when their turn comes again."""


@dataclass(frozen=True)
class Emission:
    """Source of programs.

    Attributes:
        launches: launches of named programs.
        render: one launch of programs side by side on a device, their sizes parameters.
        join: a translation unit of rendered functions by name.
        unit: characters of source that a compiler gets at a time, where launches are built side by side.
    """

    launches: Callable[[Sequence[tuple[str, Program]], Sequence[Packed]], list[Rendered]]
    render: Callable[[Sequence[Program], DeviceSpec], Rendered]
    join: Callable[[Mapping[str, str]], str]
    unit: int

    def source(self, kernels: Collection[Rendered]) -> str:
        """One translation unit of launches; "" without any."""
        return self.join(parts_of(kernels)) if kernels else ""


@dataclass(frozen=True)
class Target:
    """A kind of device.

    Attributes:
        name: as DeviceSpec.target has it.
        device_type: TensorFlow's word.
        suffix: of files of its source.
        splitting: of long reductions.
        families: of kernels, in the order they are asked.
        libraries: whose calls its executables may make; without any, regions of its devices hold no matmuls.
        passes: tensor passes in order.
        build: a binary of a source (source, architecture, cache), or BuildError.
        resources: what the launches of such a binary take, by symbol; nothing where that is not known.
        times: builds a source and times its kernels each alone (source, kernels, device, the device's number, cache):
            microseconds, NaN for one that gets no memory; where DeviceProfile.per_core holds, in one thread.
        times_apart: the same of all kernels together, in launches that need nothing of each other; None where nothing
            would share a launch.
    """

    name: str
    device_type: str
    suffix: str
    splitting: Splitting
    families: tuple[KernelFamily, ...]
    libraries: tuple[Library, ...]
    passes: Callable[[PassContext], tuple[Pass[TensorGraph], ...]]
    emission: Emission
    build: Callable[[str, str, KernelCache], Path]
    resources: Callable[[Path], Mapping[str, KernelResources]]
    times: Callable[[str, Sequence[TimedKernel], DeviceSpec, int, KernelCache], list[float]]
    times_apart: Callable[[str, Sequence[TimedKernel], DeviceSpec, int, KernelCache], float] | None = None
