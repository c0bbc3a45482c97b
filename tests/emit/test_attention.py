"""The attention kernel as it is emitted, run on this machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import Array, build_cubin, compiled, random_values, reference, region
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tests.support.numbers import set_numbers
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.device.spec import H200
from tf_stitch.families.attention import ATTENTION
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind

B = p.B
F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
ERROR = {F32: 4e-3, F16: 4e-3, BF16: 3e-2}
"""Of results of about 1, from operands of 11, 11 and 8 bits."""


def heads(name: str, dtype: DType, batch: int, length: int, count: int, size: int) -> Node:
    """[batch, count, length, size] as layers make it: in memory the heads of a position are neighbours."""
    return B.transpose(B.reshape(B.input(name, dtype, (batch * length, count * size)), (batch, length, count, size)),
                       [0, 2, 1, 3])


def plain(dtype: DType = F32, batch: int = 2, queries: int = 50, keys: int = 77, count: int = 2, size: int = 32,
          width: int = 24, score: Callable[[Node], Node] = lambda s: s) -> TensorGraph:
    q, k, v = (heads(name, dtype, batch, length, count, columns)
               for name, length, columns in (("q", queries, size), ("k", keys, size), ("v", keys, width)))
    scores = score(scaled(B.dot(q, k, False, True)))
    mixed = B.transpose(B.dot(p.softmax(scores), v), [0, 2, 1, 3])
    return region("attention", [mixed])


def scaled(s: Node) -> Node:
    return B.mul(s, p.const(0.2, s))


def padding(s: Node) -> Node:
    """An addend for each key."""
    return B.add(s, B.input("m", F32, (s.type.dims[0], 1, 1, s.type.dims[-1])))


def causal(s: Node) -> Node:
    """Every query sees what the mask of all heads says."""
    seen = B.broadcast(B.input("seen", DType.BOOL, s.type.shape[-2:]), s.type.shape)
    return B.select(seen, s, B.constant(-1e9, F32))


def seen_before(s: Node, ahead: int = 0, masked: float = -1e9, inverted: bool = False) -> Node:
    """Every query sees the keys up to its own number + ahead: the graph knows that, and no input."""
    query, key = (B.iota(s.type.shape[-2:], axis, DType.I32) for axis in range(2))
    last = B.add(query, B.broadcast(B.constant(ahead, DType.I32), query.type.shape))
    kept = B.broadcast(B.op(OpKind.GREATER if inverted else OpKind.LESS_EQUAL, key, last), s.type.shape)
    sides = s, B.broadcast(B.constant(masked, s.type.dtype), s.type.shape)
    return B.select(kept, *(sides[::-1] if inverted else sides))


def some_see_nothing(s: Node) -> Node:
    """The first queries see no key: each of their weights is the same."""
    return seen_before(s, ahead=-70, masked=-6e4)


def masked_weighs(s: Node) -> Node:
    """What is masked scores as much as what is seen."""
    return seen_before(s, masked=0.25, inverted=True)


def blocked(s: Node) -> Node:
    """Queries that see nothing get NaN."""
    seen = B.input("seen", DType.BOOL, (s.type.dims[0], 1, s.type.dims[-2], 1))
    return B.select(B.broadcast(seen, s.type.shape), s, B.constant(-np.inf, F32))


def keras(batch: int = 1, length: int = 40, count: int = 2, size: int = 24) -> TensorGraph:
    """Scores as keys times queries, as Keras' einsum makes them."""
    q, k, v = (heads(name, F32, batch, length, count, size) for name in "qkv")
    scores = B.transpose(B.dot(k, B.transpose(q, [0, 1, 3, 2])), [0, 1, 3, 2])
    return region("keras", [B.transpose(B.dot(p.softmax(padding(scaled(scores))), v), [0, 2, 1, 3])])


def joined(length: int = 33, count: int = 3, size: int = 24) -> TensorGraph:
    """Queries, keys and values side by side in one matrix."""
    width = count * size
    whole = B.input("qkv", F32, (length, 3 * width))
    q, k, v = (B.transpose(B.reshape(B.slice(whole, (0, i * width), (1, 1), (length, width)), (1, length, count, size)),
                           [0, 2, 1, 3]) for i in range(3))
    return region("joined", [B.dot(p.softmax(scaled(B.dot(q, k, False, True))), v)])


def mixed_precision() -> TensorGraph:
    q, k, v = (heads(name, F16, 1, 40, 2, 32) for name in "qkv")
    weights = p.softmax(B.cast(B.dot(q, k, False, True), F32))
    return region("mixed", [B.dot(B.cast(weights, F16), v)])


def dropped(dtype: DType = BF16) -> TensorGraph:
    """Some weights are zero, the others twice what they were, and half of a scale behind."""
    q, k, v = (heads(name, dtype, 1, 50, 2, 32) for name in "qkv")
    weights = p.softmax(scaled(B.cast(B.dot(q, k, False, True), F32)))
    kept = B.input("kept", DType.BOOL, weights.type.shape)
    scaled_up = B.select(kept, B.mul(p.const(2.0, weights), weights), B.constant(0.0, F32))
    scale = B.input("scale", F32, weights.type.shape)
    return region("dropped", [B.dot(B.cast(B.mul(scaled_up, scale), dtype), v)])


def one_matrix() -> TensorGraph:
    q, k, v = (B.input(name, F32, (rows, 40)) for name, rows in (("q", 20), ("k", 30), ("v", 30)))
    return region("one", [B.dot(p.softmax(scaled(B.dot(q, k, False, True))), v)])


GRAPHS = {
    "plain": plain(),
    "long": plain(batch=16, queries=150, keys=300, count=8, size=64, width=64),
    "wide": plain(size=128, width=64),
    "many": plain(batch=40, count=8, queries=130, keys=60, size=24, width=24),
    "f16": plain(F16, width=48),
    "bf16": plain(BF16, size=64, width=48),
    "padding": plain(score=padding),
    "causal": plain(queries=60, keys=60, score=causal),
    "blocked": plain(score=blocked),
    "seen_before": plain(BF16, 30, 200, 200, 8, 64, 64, seen_before),
    "seen_farther": plain(batch=30, count=8, queries=100, keys=300, score=lambda s: seen_before(s, 90, -np.inf)),
    "some_see_nothing": plain(F16, 30, 130, 150, 8, 32, 32, some_see_nothing),
    "masked_weighs": plain(batch=30, count=8, queries=80, keys=130, score=masked_weighs),
    "keras": keras(),
    "joined": joined(),
    "mixed_precision": mixed_precision(),
    "dropped": dropped(),
    "one_matrix": one_matrix(),
    "one_query": plain(queries=1, keys=97, size=64, width=64, score=padding),
    "two_queries": plain(F16, queries=2, keys=300, size=48, width=80),
    "one_query_bf16": plain(BF16, queries=1, keys=37, size=64, width=48),
    "one_query_of_many_keys": plain(queries=1, keys=1300, size=128, width=24, score=causal)}
BLOCKS = 2
"""Of a launch that are run, the last ones."""


@pytest.fixture(scope="module", params=GRAPHS)
def built(request: pytest.FixtureRequest) -> tuple[TensorGraph, CompiledRegion]:
    graph = GRAPHS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        set_numbers(patch, H200, "choices", attention_times=0.0)  # a kernel is chosen wherever there can be one
        return graph, compiled(graph, H200)


@pytest.fixture(scope="module")
def wanted(built: tuple[TensorGraph, CompiledRegion]) -> Array:
    graph, _ = built
    [(key, _)] = graph.outputs
    return reference(graph, random_values(graph))[0][key]


def test_becomes_one_kernel_that_reads_operands_as_they_lie(built: tuple[TensorGraph, CompiledRegion]) -> None:
    _, result = built
    assert [kernel.schedule.family for kernel in result.kernels] == [ATTENTION.name]
    assert len(result.executable.steps) == 1
    build_cubin(result)


@pytest.mark.parametrize("order", [Order.AHEAD, Order.BEHIND, Order.SHUFFLED])
def test_gives_what_its_nodes_give(built: tuple[TensorGraph, CompiledRegion], wanted: Array, order: Order) -> None:
    """Whichever warp is ahead, and whether copies are there at once or when they are waited for."""
    graph, result = built
    values = random_values(graph)
    [(key, node)] = graph.outputs
    expected = wanted.reshape(-1)
    grid = result.kernels[0].program.grid
    got = run_on_cpu(graph, result, values, Adversary(order), last=BLOCKS)[key].reshape(-1).astype(np.float64)
    ran = np.isnan(expected) | ~np.isnan(got) if grid > BLOCKS else np.ones(got.shape, np.bool_)
    assert ran.sum() >= got.size * min(grid, BLOCKS) // (2 * grid)
    np.testing.assert_allclose(got[ran], expected[ran], rtol=0, atol=ERROR[node.type.dtype])


def test_rows_that_no_vector_can_read_are_copied_first() -> None:
    """Queries, keys and values side by side behind two columns of something else."""
    length, count, size = 33, 3, 24
    width = count * size
    whole = B.input("qkv", F32, (length, 3 * width + 4))
    q, k, v = (B.transpose(B.reshape(B.slice(whole, (0, 2 + i * width), (1, 1), (length, width)),
                                     (1, length, count, size)), [0, 2, 1, 3]) for i in range(3))
    graph = region("behind", [B.dot(p.softmax(scaled(B.dot(q, k, False, True))), v)])
    built, values = compiled(graph, H200), random_values(graph)
    got = run_on_cpu(graph, built, values, Adversary(Order.BEHIND))["o0"]
    np.testing.assert_allclose(got, reference(graph, values)[0]["o0"], rtol=0, atol=ERROR[F32])
