"""Scales that are in filters, and shifts that are biases, give what they gave."""

from __future__ import annotations

import pytest

from tests.differential.runner import region
from tests.passes.kinds import same_values
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_convolutions import is_of_channels
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.passes.scales_into_filters import ScaledResult, ScalesIntoFilters, scaled_result

B, F32 = Builder(), DType.F32


def scaled(graph: TensorGraph) -> list[ScaledResult]:
    nodes = graph.nodes()
    users, wanted = users_of(nodes), frozenset(n for _, n in graph.outputs)
    roots = (n for n in nodes if n.category in (Category.CONTRACTION, Category.CONVOLUTION))
    found = (scaled_result(n, users, wanted) for n in roots)
    return [one for one in found if one is not None]


EVERY = ScalesIntoFilters(scaled)


def convolution(dtype: DType = F32) -> Node:
    x, w = B.input("x:0", dtype, (2, 7, 6, 4)), B.input("w:0", dtype, (3, 3, 4, 6))
    return B.convolution(OpKind.CONVOLUTION, x, B.transpose(w, (3, 0, 1, 2)),
                         ConvolutionAttrs((1, 1), (1, 1), (0, 0), 1))


def matmul(transposed: bool) -> Node:
    return B.dot(B.input("x:0", F32, (40, 5)), B.input("w:0", F32, (6, 5) if transposed else (5, 6)),
                 transpose_b=transposed)


def vector(name: str, shape: tuple[int, ...] = (1, 1, 1, 6)) -> Node:
    return B.input(f"{name}:0", F32, shape)


def of_channels(graph: TensorGraph, root: Node) -> list[OpKind]:
    """What numbers for each channel do to values of as many elements as the root's result."""
    return [n.kind for n in graph.nodes() if len(n.operands) == 2 and n.type.numel == root.type.numel
            and n.category is Category.ELEMENTWISE and any(is_of_channels(o, n) for o in n.operands)]


@pytest.mark.parametrize("root", [convolution(), matmul(False), matmul(True)], ids=["convolution", "matmul", "turned"])
def test_an_inferred_batch_norm_is_a_bias(root: Node) -> None:
    value = B.reshape(root, (2, 5, 4, 6))
    y = B.add(B.mul(B.sub(B.add(value, vector("b")), vector("m")), vector("f", (6,))), vector("o"))
    before = region("g", [B.exp(B.mul(y, vector("g")))])
    after = same_values(before, EVERY.run(before).graph)
    assert of_channels(after, root) == [OpKind.ADD]


def test_a_scale_alone_leaves_nothing() -> None:
    root = convolution()
    before = region("g", [B.exp(B.mul(vector("f"), root))])
    assert of_channels(same_values(before, EVERY.run(before).graph), root) == []


@pytest.mark.parametrize("root", [convolution(), matmul(False)], ids=["convolution", "matmul"])
def test_an_addend_before_the_shift(root: Node) -> None:
    value, addend = B.reshape(root, (2, 5, 4, 6)), B.input("r:0", F32, (2, 5, 4, 6))
    y = B.sub(B.add(addend, B.mul(B.add(value, vector("b")), vector("f"))), vector("o"))
    before = region("g", [B.exp(B.mul(y, vector("g")))])
    after = same_values(before, EVERY.run(before).graph)
    assert of_channels(after, root) == [OpKind.ADD, OpKind.MUL], "what is added is not scaled"
    second = B.add(B.add(y, addend), vector("g"))
    before = region("g", [B.exp(second)])
    assert of_channels(same_values(before, EVERY.run(before).graph), root) == [OpKind.ADD, OpKind.ADD]


def test_a_shift_before_any_bias() -> None:
    root = convolution()
    before = region("g", [B.exp(B.mul(B.sub(root, vector("m")), vector("f")))])
    assert of_channels(same_values(before, EVERY.run(before).graph), root) == [OpKind.ADD]


def test_one_after_the_other() -> None:
    first = B.add(B.mul(convolution(), vector("f")), vector("o"))
    second = B.convolution(OpKind.CONVOLUTION, first, B.input("w2:0", F32, (6, 1, 1, 6)),
                           ConvolutionAttrs((2, 2), (1, 1), (0, 0), 1))
    before = region("g", [B.exp(B.mul(second, vector("f2")))])
    result = EVERY.run(before)
    assert result.modified
    same_values(before, result.graph)
    assert not scaled(result.graph)


@pytest.mark.parametrize("case", ["shift", "reversed", "elements", "needed", "wanted", "half", "batches", "gradient"])
def test_what_stays(case: str) -> None:
    root = convolution(DType.BF16 if case == "half" else F32)
    outputs = {
        "shift": lambda: [B.exp(B.add(root, vector("b")))],
        "reversed": lambda: [B.sub(vector("b"), root)],
        "elements": lambda: [B.mul(root, B.input("r:0", F32, (2, 5, 4, 6)))],
        "needed": lambda: [B.mul(root, vector("f")), B.exp(root)],
        "wanted": lambda: [root, B.mul(root, vector("f"))],
        "half": lambda: [B.mul(root, B.input("f:0", DType.BF16, (6,)))],
        "batches": lambda: [B.mul(B.dot(B.input("p:0", F32, (2, 3, 5)), B.input("q:0", F32, (2, 5, 6))),
                                  vector("f", (6,)))],
        "gradient": lambda: [B.mul(B.convolution(OpKind.CONVOLUTION_INPUT_GRAD, root, root.operands[1],
                                                 ConvolutionAttrs((1, 1), (1, 1), (0, 0), 1, (7, 6))),
                                   vector("f", (4,)))]}[case]()
    assert not EVERY.run(region("g", outputs)).modified
