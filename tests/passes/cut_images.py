"""Dilated convolutions as TensorFlow makes them: of images that are cut by blocks, joined again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tests.differential.runner import region
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind as K

B = Builder()


@dataclass(frozen=True)
class Dilated:
    """Images [2, *size, c] padded by `low` and `high`; one axis is convolved as the second of two."""

    size: tuple[int, ...]
    blocks: tuple[int, ...]
    window: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    groups: int = 1
    c: int = 4
    k: int = 6
    dtype: DType = DType.F64

    def graph(self) -> TensorGraph:
        """The result, and the gradients of images and filters."""
        x = B.input("x:0", self.dtype, (2, *self.size, self.c))
        w = B.input("w:0", self.dtype, (self.k, *self._ones, *self.window, self.c // self.groups))
        along = zip(self.size, self.low, self.high, self.blocks, self.window, strict=True)
        windows = [s + i + j - step * (extent - 1) for s, i, j, step, extent in along]
        g = B.input("g:0", self.dtype, (2, *windows, self.k))
        images, gradient = self._two(self._cut(x, self.low, self.high)), self._two(self._cut(g, (0, 0), (0, 0)))
        forward = B.convolution(K.CONVOLUTION, images, w, self._attrs())
        data = B.convolution(K.CONVOLUTION_INPUT_GRAD, gradient, w, self._attrs(images.type.dims[1:-1]))
        filters = B.convolution(K.CONVOLUTION_FILTER_GRAD, images, gradient, self._attrs(w.type.dims[1:-1]))
        return region("g", [self._joined(forward, (0,) * len(windows), windows),
                            self._joined(data, self.low, self.size), filters])

    @property
    def _ones(self) -> tuple[int, ...]:
        return (1,) * (2 - len(self.size))

    def _attrs(self, size: tuple[int, ...] = ()) -> ConvolutionAttrs:
        return ConvolutionAttrs((1, 1), (1, 1), (0, 0), self.groups, size)

    def _two(self, x: Node) -> Node:
        return B.reshape(x, (x.type.dims[0], *self._ones, *x.type.dims[1:]))

    def _cut(self, x: Node, low: Sequence[int], high: Sequence[int]) -> Node:
        axes, size = len(self.blocks), x.type.dims[1:-1]
        more = [j - (s + i + j) % -step for s, i, j, step in zip(size, low, high, self.blocks, strict=False)]
        x = B.pad(x, B.constant(0, x.type.dtype), (0, *low[:axes], 0), (0, *more, 0))
        n, *size, c = x.type.dims
        steps = [s // step for s, step in zip(size, self.blocks, strict=True)]
        split = B.reshape(x, (n, *(d for pair in zip(steps, self.blocks, strict=True) for d in pair), c))
        order = (*range(2, 2 * axes + 1, 2), 0, *range(1, 2 * axes, 2), 2 * axes + 1)
        return B.reshape(B.transpose(split, order), (n * prod(self.blocks), *steps, c))

    def _joined(self, x: Node, begin: Sequence[int], size: Sequence[int]) -> Node:
        axes = len(self.blocks)
        cut, *steps = x.type.dims[0], *x.type.dims[-1 - axes:-1]
        n, k = cut // prod(self.blocks), x.type.dims[-1]
        split = B.reshape(x, (*self.blocks, n, *steps, k))
        whole = B.transpose(split, (axes, *(a for i in range(axes) for a in (axes + 1 + i, i)), 2 * axes + 1))
        sizes = (s * step for s, step in zip(steps, self.blocks, strict=True))
        return B.slice(B.reshape(whole, (n, *sizes, k)), (0, *begin, 0), (1,) * (axes + 2), (n, *size, k))
