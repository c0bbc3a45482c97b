"""How windows of convolutions and poolings lie in images, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.bias import channel_axis
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.ir.types import Dim


@dataclass(frozen=True)
class Window:
    """Along one axis.

    Attributes:
        size: elements of the image.
        extent: elements of a window, `dilation` apart.
        stride: elements from one window to the next.
        low, high: elements of padding before and behind the image.
    """

    size: int
    extent: int
    stride: int
    dilation: int = 1
    low: int = 0
    high: int = 0

    @property
    def reach(self) -> int:
        """From the first element of a window to behind its last."""
        return self.dilation * (self.extent - 1) + 1

    @property
    def count(self) -> int:
        """How many windows there are; none or less where the image is too small."""
        return (self.size + self.low + self.high - self.reach) // self.stride + 1

    @property
    def whole(self) -> bool:
        """Whether the only window is the image."""
        return self.count == 1 and self.extent == self.size


def windows(ctx: NodeContext, size: Sequence[Dim], extent: Sequence[Dim], strides: Sequence[int]) -> list[Window]:
    """The windows of a node, along each axis of its images.

    Args:
        size, extent, strides: along these axes, of images, windows, and from one window to the next.

    Raises:
        UnsupportedError: sizes are decided at run time, or no window lies in an image.
    """
    axes = len(size)
    first = 1 if channel_axis(ctx, axes + 2) == axes + 1 else 2
    dilated = ctx.attrs.has("dilations") and ctx.attrs.integers("dilations")
    dilations = of_images(dilated, first, "dilations") if dilated else (1,) * axes
    padding = ctx.attrs.string("padding")
    explicit = ctx.attrs.integers("explicit_paddings")[2 * first:] if padding == "EXPLICIT" else ()
    found = []
    for axis, (have, wide) in enumerate(zip(size, extent, strict=True)):
        if not isinstance(have, int) or not isinstance(wide, int):
            raise UnsupportedError("windows in images of sizes that are decided at run time")
        window = Window(have, wide, strides[axis], dilations[axis])
        low, high = (explicit[2 * axis], explicit[2 * axis + 1]) if explicit else _padding(window, padding)
        found.append(Window(have, wide, strides[axis], dilations[axis], low, high))
        if min(found[-1].count, wide, strides[axis]) < 1:
            raise UnsupportedError(f"no window of {wide} elements lies in an image of {have}")
    return found


def _padding(window: Window, padding: str) -> tuple[int, int]:
    if padding == "VALID":
        return 0, 0
    if padding != "SAME":
        raise UnsupportedError(f"padding {padding}")
    total = max((-(-window.size // window.stride) - 1) * window.stride + window.reach - window.size, 0)
    return total // 2, total - total // 2


def of_images(values: Sequence[int], first: int, what: str) -> tuple[int, ...]:
    """What is given for all axes, for those of images from the `first` one.

    Raises:
        UnsupportedError: the batch or the channels have another than 1.
    """
    axes = len(values) - 2
    if any(v != 1 for axis, v in enumerate(values) if not first <= axis < first + axes):
        raise UnsupportedError(f"{what} {list(values)}")
    return tuple(values[first:first + axes])
