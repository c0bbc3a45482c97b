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
from tf_stitch.ir.matrices import contiguous
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.libraries.gemm import GEMM, Gemm
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
    assert call.record.words(**call.members()) == [1, 1, 2, 3, 4, 0, 4, 8, 0, 3, 12, 0, 3, 6, 1, 0, 2]


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


def test_a_size_beyond_32_bits_is_too_large() -> None:
    assert PLAIN.too_large() == ""
    assert "32 bits" in replace(PLAIN, m=1 << 31).too_large()
