"""Convolutions of images, what follows them, and their gradients by cuDNN (native/cuda/cudnn.cc)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.device.library_numbers import LibraryNumbers
from tf_stitch.device.profile import DeviceProfile, interpolate
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir import convolution_reference as reference
from tf_stitch.ir.activations import FUNCTIONS, Activation
from tf_stitch.ir.convolutions import ConvolutionSizes, is_depthwise, multiplications_of, sizes_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_convolutions import FusedConvolution, as_fused_convolution, fused_convolutions
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.libraries.call import BoundCall, Library, LibraryCall, in_memory
from tf_stitch.wire_format import MOST_INT32, Choice, Flag, Number, Numbers, Record

TYPES = {DType.F32: 1, DType.F64: 2, DType.BF16: 14, DType.F16: 19}
"""Element types of convolutions, as tensorflow.DataType numbers them."""


class ConvolutionPass(IntEnum):
    """A convolution, or which gradient of it."""

    FORWARD = 0
    INPUT_GRADIENT = 1
    FILTER_GRADIENT = 2


_PASSES = {OpKind.CONVOLUTION: ConvolutionPass.FORWARD, OpKind.CONVOLUTION_INPUT_GRAD: ConvolutionPass.INPUT_GRADIENT,
           OpKind.CONVOLUTION_FILTER_GRAD: ConvolutionPass.FILTER_GRADIENT}
_REFERENCES = {ConvolutionPass.FORWARD: reference.convolution, ConvolutionPass.INPUT_GRADIENT: reference.input_grad,
               ConvolutionPass.FILTER_GRADIENT: reference.filter_grad}

_DEPTHWISE_BYTES = (DType.F32.size, DType.F16.size)
"""Of elements of depthwise convolutions whose time is known."""

_ALONG = ("image", "window", "windows")
_ATTRS = ("strides", "dilations", "padding")
WORDS = Record("ConvolutionSpec", """\
A convolution of images [n, *image, c] by filters [k, *window, c / groups] to results [n, *windows, k], or a gradient of
it. All are contiguous. Arguments are images, filters, results; gradient of results, filters, gradient of images; or
images, gradient of results, gradient of filters. A convolution's result is activation(convolution + addend + bias), the
bias a vector of k; these two are arguments before the result, the bias first. Nothing is rounded in between.""", (
    Choice("pass", "", ConvolutionPass), Number("type", "tensorflow::DataType", 1, 1000, "int"),
    *(Number(name, "", 1, MOST_INT32) for name in ("n", "c", "k", "groups")),
    *(Numbers(name, "", 0 if name == "padding" else 1, MOST_INT32) for name in (*_ALONG, *_ATTRS)),
    Flag("bias"), Flag("addend"), Choice("activation", "", Activation)), ordered=True)


def convolution_us(node: Node, part: float, profile: DeviceProfile) -> float:
    """Microseconds of a convolution, or a gradient of one, by its multiplications or its bytes.

    Args:
        part: of what the device's lanes add, that it multiplies.
    """
    moved = sum(x.type.nbytes for x in (node, *node.operands))
    computing = multiplications_of(node) / (part * profile.rate(DType.F32.value, OpKind.ADD.value, 1))
    return 1e-3 * max(computing, moved / interpolate(profile.bandwidth, moved))


@dataclass(frozen=True)
class Convolution(LibraryCall):
    """As WORDS says; with a bias or more only where a region can be compiled without."""

    record = WORDS

    kind: ConvolutionPass
    dtype: DType
    sizes: ConvolutionSizes
    attrs: ConvolutionAttrs
    bias: bool = False
    addend: bool = False
    activation: Activation = Activation.NONE

    def operand_bytes(self) -> list[int]:
        return [self.dtype.size * math.prod(shape) for shape in self._arguments()]

    def _arguments(self) -> Sequence[tuple[int, ...]]:
        *operands, result = self._shapes()
        return [*operands, *[(self.sizes.k,)] * self.bias, *[result] * self.addend, result]

    def _shapes(self) -> Sequence[tuple[int, ...]]:
        z = self.sizes
        image, result = (z.n, *z.image, z.c), (z.n, *z.windows, z.k)
        filters = (z.k, *z.window, z.c // self.attrs.groups)
        return {ConvolutionPass.FORWARD: (image, filters, result),
                ConvolutionPass.INPUT_GRADIENT: (result, filters, image),
                ConvolutionPass.FILTER_GRADIENT: (image, result, filters)}[self.kind]

    @property
    def needs(self) -> str:
        return "convolution_epilogues" if self.bias else ""

    def at_hand(self) -> Convolution:
        z = self.sizes
        along = (tuple(map(int, getattr(z, name))) for name in _ALONG)
        return replace(self, sizes=ConvolutionSizes(int(z.n), int(z.c), int(z.k), *along))

    def too_large(self) -> str:
        largest = max(math.prod(shape) for shape in self._shapes())
        return "" if largest <= MOST_INT32 else f"{self} has a tensor of more elements than cuDNN's kernels count"

    def members(self) -> Mapping[str, Any]:
        sizes = {name: getattr(self.sizes, name) for name in ("n", "c", "k", *_ALONG)}
        attrs = {name: getattr(self.attrs, name) for name in ("groups", *_ATTRS)}
        after = {name: getattr(self, name) for name in ("bias", "addend", "activation")}
        return {"pass": self.kind, "type": TYPES[self.dtype], **sizes, **attrs, **after}

    def reference(self, arguments: Sequence[NDArray[np.uint8]]) -> None:
        wide = self.dtype.compute.numpy
        one, other, *added, out = (memory.view(self.dtype.numpy).reshape(shape)
                                   for memory, shape in zip(arguments, self._arguments(), strict=True))
        value = _REFERENCES[self.kind](self.attrs, one.astype(wide), other.astype(wide))
        value = sum((x.astype(wide) for x in reversed(added)), value)
        out[...] = FUNCTIONS[self.activation](value) if self.activation else value

    @property
    def domain(self) -> tuple[int, int]:
        shape = self._shapes()[-1]
        return int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]

    def __str__(self) -> str:
        z, a = self.sizes, self.attrs
        image, filters = (",".join(map(str, sizes)) for sizes in ((z.n, *z.image, z.c), (z.k, *z.window)))
        text = f"{self.kind.name.lower()} {self.dtype.value} [{image}]x[{filters}]"
        text += f" groups {a.groups}" if a.groups > 1 else ""
        along = (("strides", a.strides, 1), ("dilations", a.dilations, 1), ("padding", a.padding, 0))
        text += "".join(f" {name} {'x'.join(map(str, values))}" for name, values, usual in along
                        if {*values} != {usual})
        text += " + addend" * self.addend + " + bias" * self.bias
        return f"convolution {text}" + (f" {self.activation.name.lower()}" if self.activation else "")


class ConvolutionLibrary(Library):
    """Convolutions of images and their gradients.

    Args:
        epilogue_types: of convolutions whose calls compute what follows, too (ir.fused_convolutions).
    """

    name = "convolution"
    record = WORDS
    sources = ("cuda/cudnn.cc", "cuda/convolution_graph.cc", "cuda/cudnn_library.cc", "cuda/cudnn_handles.cc",
               "cuda/cudnn_plans.cc")
    epilogue_us = 0.35
    """Of 30 convolutions of ResNet-50 on an H200 the median (docs/decisions/convolutions.md)."""

    def __init__(self, epilogue_types: tuple[DType, ...] = ()) -> None:
        self.epilogue_types = epilogue_types

    def on(self, device: DeviceSpec) -> Library:
        if not device.convolution_epilogues:
            return self
        return WITH_EPILOGUES if device.tf32 else EPILOGUES_OF_HALVES

    def is_root(self, node: Node) -> bool:
        return node.category is Category.CONVOLUTION

    def extensions(self, root: Node, users: dict[Node, list[Node]], wanted: frozenset[Node]
                   ) -> Iterator[FusedConvolution]:
        return fused_convolutions(root, users, wanted) if root.type.dtype in self.epilogue_types else iter(())

    def match(self, nodes: Sequence[Node]) -> FusedConvolution | None:
        known = len(nodes) == 1 or nodes[0].type.dtype in self.epilogue_types
        return as_fused_convolution(nodes) if known else None

    def bind(self, fused: FusedConvolution, stored: Collection[Node]) -> BoundCall:
        node = fused.convolution
        assert isinstance(node.attrs, ConvolutionAttrs)
        read = [in_memory(operand, stored) for operand in (*node.operands, *fused.added)]
        call = Convolution(_PASSES[node.kind], node.type.dtype, sizes_of(node), node.attrs, fused.bias is not None,
                           fused.addend is not None, fused.activation)
        return BoundCall(call, fused.nodes, (*((x, Mode.READ) for x in read), (fused.result, Mode.WRITE)))

    def measured_us(self, root: Node, profile: DeviceProfile) -> float | None:
        """Microseconds of depthwise convolutions of two axes; others are estimated by bytes and operations."""
        attrs, size = root.attrs, root.type.dtype.size
        assert isinstance(attrs, ConvolutionAttrs)
        if not is_depthwise(root) or attrs.groups == 1 or size not in _DEPTHWISE_BYTES or len(attrs.strides) != 2:
            return None
        strided = root.kind is OpKind.CONVOLUTION_INPUT_GRAD and attrs.strides != (1, 1)
        calls = profile.library_calls
        part = calls.depthwise_strided_grad if strided else _depthwise_part(_PASSES[root.kind], size, calls)
        return calls.depthwise_us + convolution_us(root, part, profile)


def _depthwise_part(kind: ConvolutionPass, size: int, calls: LibraryNumbers) -> float:
    """Multiplications of a depthwise convolution, as a part of what the lanes of the device add.

    Args:
        size: bytes of an element, 4 or 2.
    """
    wide, half = {ConvolutionPass.FORWARD: (calls.depthwise_float32, calls.depthwise_half),
                  ConvolutionPass.INPUT_GRADIENT: (calls.depthwise_input_grad_float32, calls.depthwise_input_grad_half),
                  ConvolutionPass.FILTER_GRADIENT: (calls.depthwise_filter_grad_float32,
                                                    calls.depthwise_filter_grad_half)}[kind]
    return wide if size == DType.F32.size else half


CUDNN = ConvolutionLibrary()
EPILOGUES_OF_HALVES = ConvolutionLibrary((DType.F16, DType.BF16))
WITH_EPILOGUES = ConvolutionLibrary((DType.F32, DType.F16, DType.BF16))
"""With what follows them, by tensor cores."""
