"""Every op kind has every fact: a row in the table, a NumPy meaning, and a way into kernels."""

from __future__ import annotations

from itertools import product

import pytest

from tests.differential.runner import compiled, region
from tests.support.rules import holds_for
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.emit.c_family import has_intrinsic
from tf_stitch.errors import TypeRuleError
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, make_node
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.op_table import OP_TABLE
from tf_stitch.libraries.registry import library_of
from tf_stitch.targets.registry import target_of

B = Builder()
ELEMENTWISE = [kind for kind, info in OP_TABLE.items() if info.category is Category.ELEMENTWISE]


def test_every_kind_has_a_row() -> None:
    assert set(OP_TABLE) == set(OpKind)


def node_of(kind: OpKind, dtype: DType) -> Node | None:
    """The op on operands of `dtype`; None if its type rule refuses them."""
    x, y = B.input("x:0", dtype, (2, 6)), B.input("y:0", dtype, (2, 6))
    operands = {1: [x], 2: [x, y], 3: [B.input("c:0", DType.BOOL, (2, 6)), x, y]}.get(OP_TABLE[kind].arity, [x, y])
    attrs: dict[type[oa.Attrs], oa.Attrs] = {
        oa.CastAttrs: oa.CastAttrs(DType.F32), oa.ShapeAttrs: oa.ShapeAttrs((2, 6)),
        oa.ReduceAttrs: oa.ReduceAttrs((1,)),
        oa.TransposeAttrs: oa.TransposeAttrs((1, 0)), oa.SliceAttrs: oa.SliceAttrs((1, 0), (1, 2), (1, 3)),
        oa.PadAttrs: oa.PadAttrs((1, 0), (0, 2)), oa.WindowsAttrs: oa.WindowsAttrs((2, 2), (2, 2), (1, 1), (1, 1)),
        oa.AxisAttrs: oa.AxisAttrs(1), oa.Attrs: oa.Attrs(),
        oa.ArgReduceAttrs: oa.ArgReduceAttrs(1, DType.I32), oa.ScanAttrs: oa.ScanAttrs(False, False),
        oa.DotAttrs: oa.DotAttrs(False, True), oa.ScatterAttrs: oa.ScatterAttrs((4, 6), oa.Combine.SUM)}
    if kind is OpKind.PAD:
        operands = [x, B.constant(1, dtype)]
    elif kind is OpKind.WINDOWS:
        operands = [B.input("images:0", dtype, (2, 3, 3, 2))]
    elif kind is OpKind.GATHER:
        operands = [x, B.input("i:0", DType.I32, (3,))]
    elif kind is OpKind.SCATTER:
        operands = [B.constant(0, dtype), B.input("i:0", DType.I32, (2,)), x]
    elif kind is OpKind.RANDOM_BITS:
        operands = [x, *(B.input(f"{name}:0", dtype, ()) for name in ("key", "low", "high"))]
    elif kind is OpKind.BROADCAST:
        operands = [B.input("r:0", dtype, (6,))]
    elif kind is OpKind.RESHAPE:
        operands = [B.input("r:0", dtype, (3, 4))]
    elif kind is OpKind.FLOAT8_DOT:
        operands = [B.input(f"{name}:0", dtype, (2, 6)) for name in "xy"]
        operands += [B.input(f"{name}:0", DType.F32, ()) for name in "st"]
        attrs[oa.Float8DotAttrs] = oa.Float8DotAttrs(DType.BF16)
    elif OP_TABLE[kind].category is Category.CONVOLUTION:
        operands = [B.input(f"{name}:0", dtype, (2, 3, 3, 2)) for name in "xy"]
        attrs[oa.ConvolutionAttrs] = oa.ConvolutionAttrs(
            (1, 1), (1, 1), (1, 1), 1, () if kind is OpKind.CONVOLUTION else (3, 3))
    elif OP_TABLE[kind].category is Category.ATTENTION:
        if dtype not in (DType.F16, DType.BF16):
            return None  # which no library computes
        operands = [B.input(f"{name}:0", dtype, (2, 3, 5, 8)) for name in "qkvog"][:OP_TABLE[kind].arity]
        operands += [B.input("s:0", DType.F32, (2, 3, 5))] if OP_TABLE[kind].arity > len(operands) else []
        attrs[oa.AttentionAttrs] = oa.AttentionAttrs(1.0, True)
    try:
        return make_node(kind, operands, attrs[OP_TABLE[kind].attrs])
    except TypeRuleError:
        return None


@holds_for(product(ELEMENTWISE, DType))
def test_every_legal_elementwise_op_has_an_intrinsic(case: tuple[OpKind, DType]) -> None:
    kind, dtype = case
    node = node_of(kind, dtype)
    if node is not None:
        compute = node.operands[-1].type.dtype.compute
        assert has_intrinsic(kind, compute), f"{kind.value} on {dtype.value}: add it to emit/c_family.py"


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("kind",
                         [k for k, i in OP_TABLE.items()
                          if i.category not in (Category.SOURCE, Category.EFFECT, Category.LOOP)])
def test_every_op_alone_becomes_a_kernel(kind: OpKind, device: DeviceSpec) -> None:
    legal = [node for dtype in DType if (node := node_of(kind, dtype)) is not None]
    called = OP_TABLE[kind].category in (Category.CONVOLUTION, Category.FLOAT8_CONTRACTION, Category.ATTENTION)
    if called and library_of(legal[0], target_of(device).libraries) is None:
        return  # stays TensorFlow's there
    assert legal, f"no dtype is legal for {kind.value}"
    for node in legal:
        if node.type != node.operands[0].type or kind is not OpKind.CAST:  # a cast to the same type is a copy
            result = compiled(region(kind.value, [node]), device)
            assert len(result.kernels) + len(result.calls) == 1


@pytest.mark.parametrize("kind", [OpKind.CONSTANT, OpKind.EXTENT, OpKind.IOTA])
def test_every_source_can_be_live_out(kind: OpKind) -> None:
    node = {OpKind.CONSTANT: B.constant([[1, 2]], DType.F32), OpKind.EXTENT: B.extent((2, 3), DType.I32),
            OpKind.IOTA: B.iota((3, 4), 1, DType.I64)}[kind]
    assert compiled(region(kind.value, [node]), CPU).kernels
