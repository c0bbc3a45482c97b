"""Matmuls by a library: the call of a graph's nodes, its words, and what it computes by NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.activations import Activation
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, make_node
from tf_stitch.ir.matrices import MatrixLayout, contiguous
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.libraries.gemm import GEMM, STRIDED_GEMM, Gemm
from tf_stitch.libraries.registry import LIBRARIES, code_of, library_of

B = Builder()
PLAIN = Gemm(DType.F32, 1, 2, 3, 4, contiguous((2, 4)), contiguous((4, 3)), contiguous((2, 3)))


def matmul() -> Node:
    x, w = B.input("x:0", DType.F32, (2, 4)), B.input("w:0", DType.F32, (4, 3))
    return make_node(OpKind.DOT, [x, w], oa.DotAttrs())


def test_it_takes_matmuls_alone() -> None:
    node = matmul()
    assert library_of(node, LIBRARIES) is GEMM
    assert library_of(B.exp(node), LIBRARIES) is None
    assert library_of(node, ()) is None


def test_a_sum_after_a_matmul_is_one_call() -> None:
    node = matmul()
    bias = B.input("b:0", DType.F32, (2, 3))
    total = B.add(node, bias)
    fused = GEMM.match([node, total])
    assert fused is not None
    bound = GEMM.bind(fused, ())
    assert bound.nodes == (node, total)
    assert [argument for argument, _ in bound.arguments] == [*node.operands, bias, total]
    assert bound.call == replace(PLAIN, addend=True)
    assert GEMM.match([node, B.exp(node)]) is None


def test_words() -> None:
    call = replace(PLAIN, bias=True, activation=Activation.GELU)
    assert LIBRARIES[code_of(call)] is GEMM
    assert call.record.words(**call.members()) == [1, 1, 2, 3, 4, 0, 4, 8, 1, 0, 0, 0, 3, 12, 1, 0, 0, 0, 3, 6, 1, 0, 0,
                                                     1, 0, 2]


@pytest.mark.parametrize("activation", Activation)
def test_reference(activation: Activation) -> None:
    rng = np.random.default_rng(0)
    a, b, bias, addend = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 4), (4, 3), (3,), (2, 3)))
    out = np.empty((2, 3), np.float32)
    call = replace(PLAIN, bias=True, addend=True, activation=activation)
    arguments = [x.reshape(-1).view(np.uint8) for x in (a, b, bias, addend, out)]
    assert call.operand_bytes() == [x.nbytes for x in arguments]
    call.reference(arguments)
    total = a @ b + bias + addend
    tanh = 0.5 * total * (1 + np.tanh(np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)))
    wanted = {Activation.NONE: total, Activation.RELU: np.maximum(total, 0), Activation.GELU: tanh}[activation]
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)


CACHE = B.input("cache", DType.F32, (2, 3, 2, 7, 4, 5))  # [sequences, layers, keys or values, length, heads, depth]
LAYER = B.reshape(B.slice(CACHE, (0, 1, 1, 0, 0, 0), (1,) * 6, (2, 1, 1, 7, 4, 5)), (2, 7, 4, 5))


@pytest.mark.parametrize(("perm", "transposed"), [((0, 2, 1, 3), False), ((0, 2, 3, 1), True)])
def test_views_are_read_where_they_lie(perm: tuple[int, ...], transposed: bool) -> None:
    values = B.transpose(LAYER, perm)
    path = [LAYER.operands[0], LAYER, values]
    assert STRIDED_GEMM.reads(path)
    assert not GEMM.reads(path)
    rows, terms = values.type.dims[-2:]
    matmul = B.dot(B.input("q", DType.F32, (2, 4, 1, rows)), values)
    fused = STRIDED_GEMM.match([matmul])
    assert fused is not None
    bound = STRIDED_GEMM.bind(fused, ())
    assert [argument for argument, _ in bound.arguments] == [matmul.operands[0], CACHE, matmul]
    assert isinstance(bound.call, Gemm)
    assert bound.call.b == MatrixLayout(transposed, 20, 840, 4, 5, 420)
    assert bound.call.nbytes == 4 * 8 * (rows + rows * terms + terms)
    memory = np.random.default_rng(0).standard_normal(CACHE.type.dims).astype(np.float32)
    q, out = np.ones((2, 4, 1, rows), np.float32), np.empty(8 * terms, np.float32)
    sizes = bound.call.operand_bytes()
    assert sizes[1] == memory.nbytes - 4 * 1 * 280, "to the end of the layer"
    bound.call.reference([x.reshape(-1).view(np.uint8)[:size] for x, size in zip((q, memory, out), sizes, strict=True)])
    np.testing.assert_allclose(out.reshape(2, 4, 1, terms), q @ memory[:, 1, 1].transpose(perm), rtol=1e-5, atol=1e-5)


def test_views_that_no_call_reads() -> None:
    x = B.input("x", DType.F32, (6, 8, 10))
    backwards = B.slice(x, (0, 7, 0), (1, -1, 1), (6, 8, 10))
    merged = B.transpose(x, (1, 0, 2))
    apart = B.slice(x, (0, 0, 0), (1, 1, 2), (6, 8, 5))
    assert not STRIDED_GEMM.reads([backwards])
    assert not STRIDED_GEMM.reads([merged, B.reshape(merged, (48, 10))])
    assert not STRIDED_GEMM.reads([apart]), "neither rows nor columns are without gaps"
    three = B.input("three", DType.F32, (2, 3, 4, 7, 5))
    assert not STRIDED_GEMM.reads([B.transpose(three, (2, 1, 0, 3, 4))])
    assert not STRIDED_GEMM.reads([B.reshape(B.input("empty", DType.F32, (0, 4)), (0, 2, 2)),
                                   B.transpose(B.input("y", DType.F32, (0, 2, 2)), (1, 0, 2))])


def test_a_size_beyond_32_bits_is_too_large() -> None:
    assert PLAIN.too_large() == ""
    assert "32 bits" in replace(PLAIN, m=1 << 31).too_large()
