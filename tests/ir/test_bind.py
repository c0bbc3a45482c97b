"""Run-time shapes in a symbolic graph."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import region
from tf_stitch.errors import BindError
from tf_stitch.ir.bind import bind, unbound_symbols
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.types import Symbol
from tf_stitch.ir.verifier import verify_graph

B, F32 = Builder(), DType.F32
N, M, K = Symbol("n"), Symbol("m"), Symbol("k")


def test_every_symbol_is_replaced() -> None:
    x = B.input("x:0", F32, (N, 4))
    graph = region("mean", [B.sub(x, B.mean(x, [0], True)), B.broadcast(B.constant(1, F32), (N,))])
    static = bind(graph, {"x:0": (6, 4)})
    verify_graph(static, static=True)
    values = {"x:0": np.arange(24, dtype=np.float32).reshape(6, 4)}
    got = interpret(static, values)
    np.testing.assert_allclose(got["o0"], values["x:0"] - values["x:0"].mean(0))
    assert got["o1"].shape == (6,)
    assert not graph.outputs[0][1].type.is_static, "the symbolic graph stays"


def test_a_symbol_on_two_inputs_has_to_agree() -> None:
    graph = region("add", [B.add(B.input("x:0", F32, (N,)), B.input("y:0", F32, (N,)))])
    assert bind(graph, {"x:0": (3,), "y:0": (3,)}).outputs[0][1].type.dims == (3,)
    with pytest.raises(BindError, match="n is 4 at run time where 3 was expected"):
        bind(graph, {"x:0": (3,), "y:0": (4,)})


def test_rank_and_numbers_are_checked() -> None:
    graph = region("neg", [B.neg(B.input("x:0", F32, (N, 4)))])
    with pytest.raises(BindError, match="rank 1 where the rewrite saw 2"):
        bind(graph, {"x:0": (4,)})
    with pytest.raises(BindError, match="4"):
        bind(graph, {"x:0": (2, 5)})


def test_reshape_infers_one_symbol() -> None:
    x = B.input("x:0", F32, (N, 6))
    graph = region("reshape", [B.neg(B.reshape(x, (K, 4)))])
    assert unbound_symbols(graph) == {}
    assert bind(graph, {"x:0": (2, 6)}).outputs[0][1].type.dims == (3, 4)
    with pytest.raises(BindError, match="18 elements"):
        bind(graph, {"x:0": (3, 6)})


def test_symbols_that_nothing_decides() -> None:
    wide = B.broadcast(B.input("x:0", F32, (1,)), (K,))
    graph = region("broadcast", [wide])
    assert unbound_symbols(graph) == {"k": wide}
    with pytest.raises(BindError, match="decided by no input"):
        bind(graph, {"x:0": (1,)})


def test_variables_bind_by_handle() -> None:
    v = B.variable("v", F32, (N,))
    static = bind(region("v", [], {"v": B.neg(v)}), {"v": (5,)})
    assert static.outputs[0][1].type.dims == (5,)
