"""Convolutions of TensorFlow at random, with both gradients, and what they are in float64: sums over a relation of
elements of images, windows and places in them, written down once and by nobody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.frontend.check import LIBRARY_ON, types_of_graph
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph

Array = NDArray[Any]
UNIT = {DType.F64: 2.0**-53, DType.F32: 2.0**-24, DType.F16: 2.0**-11, DType.BF16: 2.0**-8}
"""Of rounding: half a unit in the last place of 1."""
SMALLEST = {DType.F64: 2.0**-1074, DType.F32: 2.0**-149, DType.F16: 2.0**-24, DType.BF16: 2.0**-133}
PASSES = ("forward", "data", "filters")
_AXES = ("oir", "pjs", "qlt")
"""Letters of windows, images and places, along each axis."""


@dataclass(frozen=True)
class Axis:
    """Windows along one axis; `low` and `high` elements are added to an image before and behind."""

    size: int
    extent: int
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def count(self) -> int:
        return (self.size + self.low + self.high - self.dilation * (self.extent - 1) - 1) // self.stride + 1

    def relation(self) -> Array:
        """[window, element, place]: 1 where a window has the element at that place."""
        window, element, place = np.ogrid[:self.count, :self.size, :self.extent]
        return (window * self.stride + place * self.dilation - self.low == element).astype(np.float64)


@dataclass(frozen=True)
class Case:
    """A convolution.

    Attributes:
        padding: SAME, VALID, EXPLICIT.
        first: channels are the first axis of an image.
        each, kept: channels of a group, of images and of results.
    """

    dtype: DType
    batch: int
    axes: tuple[Axis, ...]
    groups: int
    each: int
    kept: int
    padding: str
    first: bool
    depthwise: bool

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """As TensorFlow has them: images, filters, results."""
        image, window, windows = (tuple(getattr(a, name) for a in self.axes) for name in ("size", "extent", "count"))
        c, k = self.groups * self.each, self.groups * self.kept
        filters = (*window, self.groups, self.kept) if self.depthwise else (*window, self.each, k)
        return self._image(image, c), filters, self._image(windows, k)

    def _image(self, along: tuple[int, ...], channels: int) -> tuple[int, ...]:
        return (self.batch, channels, *along) if self.first else (self.batch, *along, channels)

    def attributes(self) -> dict[str, Any]:
        def all_axes(values: list[int]) -> list[int]:
            return [1, 1, *values] if self.first else [1, *values, 1]

        layout = "NC" + "DHW"[-len(self.axes):] if self.first else "N" + "DHW"[-len(self.axes):] + "C"
        found = {"strides": all_axes([a.stride for a in self.axes]), "padding": self.padding, "data_format": layout,
                 "dilations": all_axes([a.dilation for a in self.axes])}
        if self.padding == "EXPLICIT":
            pads = [p for a in self.axes for p in (a.low, a.high)]
            found["explicit_paddings"] = [0, 0, 0, 0, *pads] if self.first else [0, 0, *pads, 0, 0]
        return found

    def values(self, seed: int = 0) -> dict[str, Array]:
        """Images, filters, and a gradient of the result."""
        random = np.random.default_rng(seed)
        return {f"{name}:0": random.standard_normal(shape).astype(self.dtype.numpy)
                for name, shape in zip("xwg", self.shapes(), strict=True)}

    def want(self, values: dict[str, Array]) -> dict[str, Array]:
        """Each pass in float64."""
        x, w, g = (values[f"{name}:0"].astype(np.float64) for name in "xwg")
        if self.first:
            x, g = np.moveaxis(x, 1, -1), np.moveaxis(g, 1, -1)
        x = x.reshape(*x.shape[:-1], self.groups, self.each)
        g = g.reshape(*g.shape[:-1], self.groups, self.kept)
        w = w.reshape(*w.shape[:len(self.axes)], self.each, self.groups, self.kept)
        letters = _AXES[:len(self.axes)]
        windows, images, places = ("".join(axis[i] for axis in letters) for i in range(3))
        of_x, of_w, of_g = f"n{images}yc", f"{places}cyk", f"n{windows}yk"

        def summed(result: str, **given: Array) -> Array:
            relations = [a.relation() for a in self.axes]
            return np.asarray(np.einsum(f"{','.join((*given, *letters))}->{result}", *given.values(), *relations,
                                        optimize=True))

        shapes = dict(zip(PASSES, (self.shapes()[i] for i in (2, 0, 1)), strict=True))
        found = {"forward": summed(of_g, **{of_x: x, of_w: w}), "data": summed(of_x, **{of_g: g, of_w: w}),
                 "filters": summed(of_w, **{of_x: x, of_g: g})}
        return {name: self._as_asked(name, value).reshape(shapes[name]) for name, value in found.items()}

    def _as_asked(self, name: str, value: Array) -> Array:
        if name == "filters":
            return value
        value = value.reshape(*value.shape[:-2], -1)
        return np.moveaxis(value, -1, 1) if self.first else value

    def allowed(self, values: dict[str, Array]) -> dict[str, Array]:
        """Error of each element of each pass: `terms` magnitudes multiplied and summed one by one in the type that sums
        are in, then rounded."""
        sums = UNIT[DType.F64 if self.dtype is DType.F64 else DType.F32]
        window, windows = (int(np.prod([getattr(a, name) for a in self.axes])) for name in ("extent", "count"))
        terms = {"forward": window * self.each, "data": window * self.kept, "filters": self.batch * windows}
        sizes = self.want({key: np.abs(value) for key, value in values.items()})
        want = self.want(values)
        return {name: (2 * terms[name] + 2) * sums * sizes[name] + 1.001 * UNIT[self.dtype] * np.abs(want[name])
                + SMALLEST[self.dtype] for name in PASSES}  # fmt: skip

    def imported(self) -> TensorGraph:
        """The three nodes of TensorFlow as the compiler has them. No kernel of TensorFlow's runs."""
        kind = f"Conv{len(self.axes)}D"
        forward, data, filters = ("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
                                  "DepthwiseConv2dNativeBackpropFilter") if self.depthwise else (
            kind, *(f"{kind}Backprop{of}{'V2' if kind == 'Conv3D' else ''}" for of in ("Input", "Filter")))
        settings, ops = self.attributes(), tf.raw_ops
        with tf.Graph().as_default() as graph:
            x, w, g = (tf.compat.v1.placeholder(self.dtype.numpy, shape, name)
                       for name, shape in zip("xwg", self.shapes(), strict=True))
            results = [getattr(ops, forward)(input=x, filter=w, **settings),
                       getattr(ops, data)(input_sizes=self.shapes()[0], filter=w, out_backprop=g, **settings),
                       getattr(ops, filters)(input=x, filter_sizes=self.shapes()[1], out_backprop=g, **settings)]
        imported = import_graph(graph.as_graph_def(), types_of_graph(graph), library_on=LIBRARY_ON)
        outputs: list[tuple[str, Node]] = []
        for name, tensor in zip(PASSES, results, strict=True):
            node = imported.value(tensor.name)
            assert node is not None, imported.nodes[tensor.op.name].reason
            outputs.append((name, node))
        return TensorGraph("convolutions", outputs)


def same(size: int, extent: int, stride: int, dilation: int) -> Axis:
    """As TensorFlow's documentation has SAME: as many windows as strides begin in the image."""
    count = -(-size // stride)
    missing = max((count - 1) * stride + dilation * (extent - 1) + 1 - size, 0)
    return Axis(size, extent, stride, dilation, missing // 2, missing - missing // 2)


@st.composite
def axis(draw: Callable[[st.SearchStrategy[Any]], Any], padding: str, stride: int, dilation: int) -> Axis:
    """With one window at least."""
    extent = draw(st.integers(1, 4))
    if padding == "SAME":
        return same(draw(st.integers(1, 8)), extent, stride, dilation)
    low, high = (draw(st.integers(0, 3)) for _ in range(2)) if padding == "EXPLICIT" else (0, 0)
    least = max(1, dilation * (extent - 1) + 1 - low - high)
    return Axis(draw(st.integers(least, least + 6)), extent, stride, dilation, low, high)


@st.composite
def cases(draw: Callable[[st.SearchStrategy[Any]], Any], depthwise: bool | None = None,
          dtypes: tuple[DType, ...] = tuple(UNIT)) -> Case:
    """Of two axes or three; TensorFlow has no explicit padding of three, and other sizes where dilations of height and
    width differ there."""
    depthwise = draw(st.booleans()) if depthwise is None else depthwise
    rank = 2 if depthwise else draw(st.sampled_from((2, 2, 3)))
    padding = draw(st.sampled_from(("SAME", "VALID", "EXPLICIT")[:2 if rank == 3 else 3]))
    strides = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.sampled_from((1, 1, 2, 3))) for _ in range(rank)]
    if rank == 3:
        dilations[2] = dilations[1]
    axes = tuple(draw(axis(padding, s, d)) for s, d in zip(strides, dilations, strict=True))
    groups = draw(st.integers(1, 5) if depthwise else st.sampled_from((1, 1, 2, 3)))
    return Case(draw(st.sampled_from(dtypes)), draw(st.integers(1, 3)), axes, groups,
                1 if depthwise else draw(st.integers(1, 4)), draw(st.integers(1, 3)), padding, draw(st.booleans()),
                depthwise)
