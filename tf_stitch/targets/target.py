"""What a kind of device is to the compiler: passes, kernel families, libraries, source, builder, timer. What one device
of it can do is a DeviceSpec's, as data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.rendered import Packed, Rendered, parts_of
from tf_stitch.families.family import KernelFamily
from tf_stitch.ir.copies import Copies
from tf_stitch.ir.fused_attentions import FusedAttention
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.libraries.call import Library
from tf_stitch.pass_manager import Pass
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.kernel_resources import KernelResources
from tf_stitch.runtime.timed_kernel import TimedKernel
from tf_stitch.schedule.reuse import Reuse
from tf_stitch.targets.passes import Splitting
from tf_stitch.transforms.scales_into_filters import ScaledResult

LARGE = 1 << 28
"""Bytes that no cache holds, as the matrices of a model when their turn comes again."""


@dataclass(frozen=True)
class PassOptions:
    """What passes need of the compiler.

    Attributes:
        to_sum: matmuls of a graph whose sum takes a kernel less time than the matmul takes a library.
        sum_depthwise: whether a static depthwise convolution, or a gradient of one, takes kernels less time than a
            library.
        windows_in_rows: whether a GPU's kernel sums columns of whole rows of windows for one, and keeps no neighbouring
            windows in registers.
        to_kernel: matmuls of a graph that a kernel of ours multiplies in less time than a library.
        to_pad: matmuls of a graph that a library is faster with on zeros added to their rows.
        of_float8: matmuls of a graph that a library is faster with on the float8 that their operands come from.
        for_gradients: copies of a graph's nodes that gradients of attentions are to compute again.
        to_call: attentions of a graph that a library computes, with their gradients.
        to_move: scales of a graph's results that go into filters.
    """

    reuse: Reuse
    to_sum: Callable[[TensorGraph], set[Node]]
    sum_depthwise: Callable[[Node], bool]
    windows_in_rows: Callable[[Node], bool]
    to_kernel: Callable[[TensorGraph], set[Node]]
    to_pad: Callable[[TensorGraph], set[Node]]
    for_gradients: Callable[[TensorGraph], Sequence[Copies]]
    to_call: Callable[[TensorGraph], Sequence[FusedAttention]]
    of_float8: Callable[[TensorGraph], Collection[Node]]
    to_move: Callable[[TensorGraph], Collection[ScaledResult]]


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
    passes: Callable[[DeviceSpec, PassOptions], tuple[Pass[TensorGraph], ...]]
    emission: Emission
    build: Callable[[str, str, KernelCache], Path]
    resources: Callable[[Path], Mapping[str, KernelResources]]
    times: Callable[[str, Sequence[TimedKernel], DeviceSpec, int, KernelCache], list[float]]
    times_apart: Callable[[str, Sequence[TimedKernel], DeviceSpec, int, KernelCache], float] | None = None
