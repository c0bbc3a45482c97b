"""How long chains of additions are, by hand-written programs."""

from __future__ import annotations

import pytest

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, constant, var
from tf_stitch.kernel_ir.sum_chains import CHAIN, LONGEST, Chain, longest, sum_chains

F32 = DType.F32
BUFFERS = (k.Buffer("x", F32, 1 << 30, k.Mode.READ),)


def chains(*body: k.Stmt, threads: int = 1) -> dict[str, Chain]:
    return sum_chains(k.Program(BUFFERS, 1, threads, body))


def begin(name: str = "acc") -> k.Accumulator:
    return k.Accumulator(name, F32, 0.0)


def add(name: str, value: k.Expr) -> k.Update:
    return k.Update(name, OpKind.SUM, value)


def load(*over: Var, strides: tuple[int, ...] = (1,)) -> k.Load:
    index = constant(0)
    for variable, stride in zip(over, strides, strict=True):
        index += var(variable) * stride
    return k.Load("x", index, F32)


ROW, FEW = Var("row", 1000), Var("j", 8)


def test_a_loop_is_a_chain_of_its_length() -> None:
    assert chains(begin(), k.For(ROW, (add("acc", load(ROW)),))) == {"acc": Chain(1000, 1000)}


def test_lanes_of_vectors_have_chains_of_their_own() -> None:
    """And are added up, with what is left of whole vectors."""
    assert chains(begin(), k.For(ROW, (add("acc", load(ROW)),), k.Loop.SIMD)) == {"acc": Chain(125 + 16, 1000)}
    assert chains(begin(), k.For(FEW, (add("acc", load(FEW)),), k.Loop.SIMD)) == {"acc": Chain(8, 8)}


@pytest.mark.parametrize("value", [
    k.Apply(OpKind.POW, (load(ROW), load(ROW)), F32), load(ROW, strides=(7,)), k.Load("x", var(ROW) // 3, F32),
    k.Apply(OpKind.CAST, (k.FromIndex(var(ROW), DType.I64),), F32)])
def test_what_has_no_vectors_is_one_chain(value: k.Expr) -> None:
    assert chains(begin(), k.For(ROW, (add("acc", value),), k.Loop.SIMD)) == {"acc": Chain(1000, 1000)}


def test_a_sum_of_sums_adds_up_chains() -> None:
    term = load(ROW, FEW, strides=(8, 1))
    inner = (begin("part"), k.For(FEW, (add("part", term),)), add("acc", k.Local("part", F32)))
    assert chains(begin(), k.For(ROW, inner)) == {"part": Chain(8, 8), "acc": Chain(1008, 8000)}


def test_loops_in_loops_multiply() -> None:
    assert chains(begin(), k.For(ROW, (k.For(FEW, (add("acc", load(FEW)),)),))) == {"acc": Chain(8000, 8000)}


def test_elements_of_an_array_have_chains_of_their_own() -> None:
    local = k.Array("sums", F32, 8, init=0)
    row = k.For(FEW, (k.SetElement("sums", var(FEW), load(ROW, FEW, strides=(8, 1)), OpKind.SUM),), k.Loop.SIMD)
    assert chains(local, k.For(ROW, (row,))) == {"sums": Chain(1000, 1000)}
    apart = [k.SetElement("sums", constant(i), load(ROW), OpKind.SUM) for i in range(8)]
    assert chains(local, k.For(ROW, tuple(apart))) == {"sums": Chain(1000, 1000)}


def test_threads_add_up_as_a_tree() -> None:
    body = (begin(), k.For(ROW, (add("acc", load(ROW)),)), k.AllReduce((("acc", OpKind.SUM),), 256))
    assert chains(*body, threads=256) == {"acc": Chain(1008, 256_000)}


def test_what_is_set_begins_anew() -> None:
    body = (begin(), k.For(ROW, (add("acc", load(ROW)),)), k.Assign("acc", k.Literal(0.0, F32)), add("acc", load(FEW)))
    assert chains(*body)["acc"].depth == 1


def test_the_longer_of_two_branches_counts() -> None:
    asked = k.InRange(var(ROW), 0, 5)
    body = k.If(asked, (add("acc", load(ROW)),), (add("acc", load(ROW)), add("acc", load(ROW))))
    assert chains(begin(), k.For(ROW, (body,))) == {"acc": Chain(2000, 2000)}


def test_maxima_and_whole_numbers_lose_nothing() -> None:
    whole = k.Accumulator("whole", DType.I32, 0)
    body = (add("whole", k.Literal(1, DType.I32)), k.Update("acc", OpKind.MAX, load(ROW)))
    assert chains(begin(), whole, k.For(ROW, body)) == {}


@pytest.mark.parametrize("terms", [2, 3, 10, 100, CHAIN, 108])
def test_a_few_terms_may_follow_each_other(terms: int) -> None:
    assert Chain(terms - 1, terms).bounded


@pytest.mark.parametrize(("depth", "terms"), [(109, 109), (1000, 1000), (1000, 1 << 30)])
def test_a_chain_that_is_too_long(depth: int, terms: int) -> None:
    assert not Chain(depth, terms).bounded


def test_levels_keep_within_the_bound_for_every_number_of_terms() -> None:
    for terms in [*range(2, 20_000), *(int(1.07 ** i) for i in range(150, 275))]:
        depth, left = 0, terms
        while left > CHAIN:
            depth, left = depth + CHAIN, -(-left // CHAIN)
        assert terms > LONGEST or Chain(depth + left, terms).bounded, terms


def test_a_size_that_changes_counts_as_the_longest() -> None:
    n = size("n", 3)
    assert [longest(e) for e in (7, n, n * n, (n + 1023) // 1024)] == [7, LONGEST, LONGEST, (LONGEST + 1023) // 1024]
