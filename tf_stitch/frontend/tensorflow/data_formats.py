"""Axes in another layout of images, which TensorFlow's layout optimizer asks for where it changes one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tf_stitch.frontend.tensorflow.node_context import NodeContext


def other_axes(ctx: NodeContext) -> NDArray[np.int64]:
    """What the axes that a DataFormatDimMap is given are in the other layout."""
    source, target = ctx.attrs.string("src_format"), ctx.attrs.string("dst_format")
    shape = ctx.shape_of(0)
    axes = [target.index(source[axis]) for axis in ctx.ints(0, "the axes")]
    return np.asarray(axes, np.int64).reshape(() if shape == () else (len(axes),))


def other_order(ctx: NodeContext) -> list[int]:
    """Where a DataFormatVecPermute finds what belongs to each axis of the other layout: among all axes, or among height
    and width."""
    source, target = ctx.attrs.string("src_format"), ctx.attrs.string("dst_format")
    shape = ctx.shape_of(0)
    if shape is not None and shape[0] == 2:
        source, target = (name.replace("N", "").replace("C", "") for name in (source, target))
    return [source.index(axis) for axis in target]
