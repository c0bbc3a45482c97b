"""Which depthwise convolutions are sums in kernels (transforms/depthwise_to_sums.py). Before anything is planned, so by
the rates that kernels were measured to reach, docs/decisions/convolutions.md has them."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.device.profile import DeviceProfile, interpolate
from tf_stitch.ir.convolutions import sizes_of
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.work import SECTOR_BYTES
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.cudnn import convolution_us
from tf_stitch.libraries.registry import library_of

_LEAST_US = 3.0
_IN_REGISTERS, _IN_COLUMNS, _OF_FILTERS = 0.3, 0.065, 0.034
"""Of kernels of ours: microseconds of the least, and multiplications as a part of what the device's lanes add: where
neighbouring windows are kept in registers (assumed), by sums of columns, and of gradients of filters by those."""


def faster_as_sum(node: Node, libraries: Sequence[Library], profile: DeviceProfile) -> bool:
    """Whether a static depthwise convolution, or a gradient of one, takes kernels less time than a library. A kernel
    computes what follows, too: where the library computes the convolution, its result is written, and read again."""
    library = library_of(node, libraries)
    called = None if library is None else library.measured_us(node, profile)
    if called is None:
        return True
    summed = _LEAST_US + convolution_us(node, _part(node), profile)
    between = 2 * node.type.nbytes
    return summed <= called + 1e-3 * between / interpolate(profile.bandwidth, between)


def of_few_channels(node: Node) -> bool:
    """Whether threads that have neighbouring channels of one window would read less than whole sectors of memory."""
    return sizes_of(node).c * node.type.dtype.size < SECTOR_BYTES


def _part(node: Node) -> float:
    if node.kind is OpKind.CONVOLUTION_FILTER_GRAD:
        return _OF_FILTERS
    return _IN_COLUMNS if of_few_channels(node) else _IN_REGISTERS
