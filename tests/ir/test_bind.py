"""Run-time shapes in a symbolic graph."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import region
from tf_stitch.errors import BindError
from tf_stitch.ir import dynamic_dims as changing_sizes
from tf_stitch.ir.bind import bind, unbound_symbols
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.canonical_symbols import with_canonical_symbols
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.dynamic_dims import Relations, atom_values, bind_changing, related_symbols
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.symbolic_dims import SymbolicDim, divides, size
from tf_stitch.ir.text_format import anonymous_text
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


def test_changing_symbols_become_sizes() -> None:
    x = B.input("x", DType.F32, (Symbol("b"), Symbol("n"), 64))
    graph = TensorGraph("g", [("o", B.mean(x, [1]))])
    bound = bind_changing(graph, {"x": (4, 17, 64)}, {"n"})
    [given] = bound.inputs()
    assert [isinstance(d, SymbolicDim) for d in given.type.dims] == [False, True, False]
    assert [int(d) for d in given.type.dims] == [4, 17, 64]


def test_sizes_that_vectors_need_are_known_to_be_multiples() -> None:
    x = B.input("x", DType.F32, (Symbol("b"), Symbol("n")))
    graph = TensorGraph("g", [("o", B.exp(x))])
    assert bind_changing(graph, {"x": (8, 12)}, {"b", "n"}, 4).inputs()[0].type.dims == (size("b", 8), size("n", 12, 4))
    assert bind_changing(graph, {"x": (8, 13)}, {"b", "n"}, 4).inputs()[0].type.dims == (size("b", 8), size("n", 13))
    atoms = atom_values({"b": 8, "n": 13}, 4)
    assert atoms == {"b": 8, "b/4": 2, "n": 13}


def test_rows_of_a_flattened_tensor_are_its_axes() -> None:
    x = B.input("x", DType.F32, (Symbol("b"), Symbol("n"), 64))
    flat = B.input("y", DType.F32, (Symbol("rows"), 64))
    graph = TensorGraph("g", [("o", B.add(x, B.reshape(flat, (Symbol("b"), Symbol("n"), 64))))])
    shapes = {"x": (4, 17, 64), "y": (68, 64)}
    related = related_symbols(graph, shapes, {"n", "b", "rows"})
    assert related == {"rows": size("b", 4) * size("n", 17)}
    bound = bind_changing(graph, shapes, {"n", "b", "rows"})
    assert bound.outputs[0][1].type.numel == size("b", 4) * size("n", 17) * 64


def test_an_inferred_axis_makes_the_rows_a_multiple() -> None:
    flat = B.input("y", DType.F32, (Symbol("rows"), 64))
    graph = TensorGraph("g", [("o", B.exp(B.reshape(flat, (4, Symbol("n"), 64))))])
    bound = bind_changing(graph, {"y": (68, 64)}, {"rows"})
    assert divides(4, bound.inputs()[0].type.dims[0])
    assert not divides(4, bound.outputs[0][1].type.dims[1])
    assert [int(d) for d in bound.outputs[0][1].type.dims] == [4, 17, 64]


def test_what_a_matmul_sums_over_is_one_size() -> None:
    x, y = (B.input(key, DType.F32, shape) for key, shape in (("x", (4, 1, Symbol("n"))), ("y", (4, Symbol("k"), 8))))
    graph = TensorGraph("g", [("o", B.dot(x, y, False, False))])
    shapes = {"x": (4, 1, 17), "y": (4, 17, 8)}
    assert related_symbols(graph, shapes, {"n", "k"}) in ({"k": size("n", 17)}, {"n": size("k", 17)})
    bound = bind_changing(graph, shapes, {"n", "k"})
    assert bound.inputs()[0].type.dims[2] == bound.inputs()[1].type.dims[1]


def test_what_a_broadcast_leaves_is_one_size() -> None:
    column, whole = B.input("c", DType.F32, (8, Symbol("n"), 1)), B.input("w", DType.F32, (8, Symbol("k"), 16))
    graph = TensorGraph("g", [("o", B.add(whole, B.broadcast(column, (8, Symbol("k"), 16))))])
    shapes = {"c": (8, 5, 1), "w": (8, 5, 16)}
    assert related_symbols(graph, shapes, {"n", "k"}) in ({"k": size("n", 5)}, {"n": size("k", 5)})
    assert related_symbols(graph, {"c": (8, 1, 1), "w": (8, 5, 16)}, {"k"}) == {}


SHAPES = ((4, 17, 9), (4, 9, 17)), ((4, 17, 9), (4, 17, 9)), ((4, 6, 6), (4, 6, 6)), ((4, 6, 6), (4, 4, 9))


@pytest.mark.parametrize(("old", "new"), SHAPES)
def test_axes_that_a_reshape_keeps_are_one_size(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    """A gradient's way back: its shape is that of another tensor, and the product of two axes tells neither."""
    x, y = (B.input(key, DType.F32, (4, Symbol(key + "0"), Symbol(key + "1"))) for key in "xy")
    graph = TensorGraph("g", [("o", B.mul(B.reshape(x, y.type.shape), y))])
    changing = {"x0", "x1", "y0", "y1"}
    if new == (4, 4, 9):
        with pytest.raises(BindError):  # which sizes are one cannot be told: compiled for its numbers
            bind_changing(graph, {"x": old, "y": new}, changing)
        return
    bound = bind_changing(graph, {"x": old, "y": new}, changing)
    assert [tuple(map(int, n.type.dims)) for n in bound.inputs()] == [old, new]
    assert len({d for n in bound.inputs() for d in n.type.dims[1:]}) == 2


@pytest.mark.parametrize(("batch", "length"), [(8, 17), (8, 1), (1, 17), (1, 1), (64, 1), (1, 64)])
@pytest.mark.parametrize("changing", [{"n", "r"}, {"b", "n", "r"}])
def test_an_axis_of_one_element_decides_nothing(batch: int, length: int, changing: set[str]) -> None:
    """A dense layer flattens [batch, length, 64]: with one word, the rows are as many as the sentences."""
    x, bias = B.input("x", DType.F32, (Symbol("b"), N, 64)), B.input("y", DType.F32, (Symbol("r"), 64))
    back = B.reshape(B.add(B.reshape(x, (Symbol("r"), 64)), bias), (Symbol("b"), N, 64))
    graph = TensorGraph("g", [("o", B.mul(back, x))])
    shapes = {"x": (batch, length, 64), "y": (batch * length, 64)}
    rows = (size("b", batch) if "b" in changing else batch) * size("n", length)
    wanted = [{"r": rows}, *([{"n": size("r", length)}] if batch == 1 and "b" not in changing else [])]
    assert related_symbols(graph, shapes, changing) in wanted
    given, bias = bind_changing(graph, shapes, changing).inputs()
    assert bias.type.dims[0] == given.type.dims[0] * given.type.dims[1]
    assert isinstance(given.type.dims[1], SymbolicDim)


def test_axes_that_a_reshape_splits_and_merges() -> None:
    """A dense layer's gradient: [batch, length, 4, 8] to [batch, length, 32] and to [rows, 32]."""
    heads, wide = B.input("h", DType.F32, (Symbol("a"), Symbol("b"), 4, 8)), B.input("w", DType.F32, (N, M, 32))
    rows = B.input("r", DType.F32, (K, 32))
    graph = TensorGraph("g", [("o", B.add(B.reshape(B.add(B.reshape(heads, (N, M, 32)), wide), (K, 32)), rows))])
    shapes = {"h": (6, 5, 4, 8), "w": (6, 5, 32), "r": (30, 32)}
    related = related_symbols(graph, shapes, {"a", "b", "n", "m", "k"})
    assert sorted(related) in (["a", "b", "k"], ["k", "m", "n"])
    bound = bind_changing(graph, shapes, {"a", "b", "n", "m", "k"})
    assert [tuple(map(int, n.type.dims)) for n in bound.inputs()] == list(shapes.values())
    assert len({d for n in bound.inputs() for d in n.type.dims if isinstance(d, SymbolicDim)}) == 3


def flattened(batch: int, length: int) -> tuple[TensorGraph, dict[str, tuple[int, ...]]]:
    """[batch, length, 64] from rows, whose number has to be a multiple of 4 besides."""
    x, flat = B.input("x", DType.F32, (Symbol("b"), N, 64)), B.input("y", DType.F32, (Symbol("rows"), 64))
    parts = B.reshape(B.input("z", DType.F32, (M, 8)), (4, K, 8))
    total = B.add(x, B.reshape(flat, (Symbol("b"), N, 64)))
    graph = TensorGraph("g", [("o", total), ("p", B.exp(parts))])
    return graph, {"x": (batch, length, 64), "y": (batch * length, 64), "z": (4 * length, 8)}


def test_relations_serve_other_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    changing, relations = {"b", "n", "rows", "m"}, Relations()
    graph, shapes = flattened(4, 17)
    found = related_symbols(graph, shapes, changing)
    assert len(found) == 2
    bind_changing(graph, shapes, changing, 4, relations)
    others = [flattened(batch, length)[1] for batch, length in ((8, 12), (4, 1), (3, 31))]
    wanted = [anonymous_text(bind_changing(graph, other, changing, 4)) for other in others]
    passes: list[int] = []
    bind_nodes = changing_sizes.bind_nodes
    monkeypatch.setattr(changing_sizes, "bind_nodes", lambda *a: passes.append(1) or bind_nodes(*a))
    assert [anonymous_text(bind_changing(graph, other, changing, 4, relations)) for other in others] == wanted
    assert len(passes) == len(others), "nothing is found twice"
    assert related_symbols(graph, others[0], changing, relations) == related_symbols(graph, others[0], changing)


def test_relations_that_do_not_fit_are_found_anew() -> None:
    """Products of equal numbers may be taken for one another, which other numbers refute."""
    x, y = (B.input(key, DType.F32, (4, Symbol(key + "0"), Symbol(key + "1"))) for key in "xy")
    graph = TensorGraph("g", [("o", B.mul(B.reshape(x, y.type.shape), y))])
    changing, relations = {"x0", "x1", "y0", "y1"}, Relations()
    for old, new in SHAPES[:3] * 2:
        shapes = {"x": old, "y": new}
        bound = bind_changing(graph, shapes, changing, 1, relations)
        assert [tuple(map(int, n.type.dims)) for n in bound.inputs()] == [old, new]
        related = relations.at({"x0": old[1], "x1": old[2], "y0": new[1], "y1": new[2]}, changing)
        assert related is not None
        assert relations.at({"x0": 2, "x1": 3, "y0": 5, "y1": 7}, changing) is None
        assert relations.at({"x0": old[1], "x1": old[2], "y0": new[1], "y1": new[2]}, {"x0"}) is None


def test_symbols_are_named_by_order() -> None:
    def graph(name: str) -> TensorGraph:
        x = B.input("x", DType.F32, (Symbol(name), 64))
        return TensorGraph("g", [("o", B.broadcast(B.exp(x), (3, Symbol(name), 64)))])

    assert anonymous_text(graph("a")) != anonymous_text(graph("b"))
    texts = {anonymous_text(with_canonical_symbols(graph(name))) for name in "ab"}
    assert len(texts) == 1
