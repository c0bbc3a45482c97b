"""Losses run in pieces of their rows: what is computed, in which order, in how little memory, and that it is right."""

from __future__ import annotations

import random

import pytest

from tests.compiler.losses import KINDS, loss, values_of
from tests.differential.runner import (
    LIGHT,
    compare,
    compiled,
    keys_of,
    random_values,
    reference,
    region,
    run_host,
    run_kernel_ir,
)
from tests.support.tiers import each_commit
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import planned_kernels
from tf_stitch.compiler.plan_in_pieces import plan_in_pieces, wide_matmuls
from tf_stitch.config import MemoryBudget
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.stitch_plan import StitchPlan

B = Builder()
ROWS, WIDTH, CLASSES, KIB = 64, 32, 512, 1024
DEVICES = pytest.mark.parametrize("device", [CPU, H200], ids=["cpu", "h200"])


def planned(graph: TensorGraph, device: DeviceSpec, memory: MemoryBudget | None = None) -> KernelPlan:
    return planned_kernels(graph, *keys_of(graph), CompileOptions(device, memory=memory))


def in_pieces(plan: StitchPlan, pieces: int) -> StitchPlan:
    return plan_in_pieces(plan, wide_matmuls(plan)[0], pieces)


def rows_of_logits(plan: StitchPlan) -> list[int]:
    return [int(n.type.dims[0]) for n in plan.graph.nodes()
            if isinstance(n.attrs, DotAttrs) and not n.attrs.transpose_a and not n.attrs.transpose_b]


@DEVICES
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_compute_the_same(kind: str, device: DeviceSpec) -> None:
    for pieces in (2, 8):
        graph = loss(kind, of_bias=pieces == 2)  # whose rows are added up in two parts
        values = values_of(graph)
        cut = in_pieces(planned(graph, device).plan, pieces)
        assert rows_of_logits(cut) == [ROWS // pieces] * pieces
        compare(graph, interpret(cut.graph, values), *reference(graph, values), f"{pieces} pieces")


def test_nodes_of_pieces() -> None:
    h, w = B.input("h:0", DType.F32, (4, 32)), B.input("w:0", DType.F32, (32, 256))
    rows = B.mul(B.dot(h, w), B.input("scale:0", DType.F32, (4, 1)))
    plan = planned(region("g", [B.sum(rows, [1]), B.dot(h, rows, transpose_a=True)]), CPU).plan
    nodes = in_pieces(plan, 2).graph.nodes()
    place = {node: i for i, node in enumerate(nodes)}
    text = [f"{node.kind.value}({', '.join(str(place[o]) for o in node.operands)}) {node.type}" for node in nodes]
    assert text == TEXT.split("\n")[1:-1]


TEXT = """
input() float32[4,32]
slice(0) float32[2,32]
input() float32[32,256]
dot(1, 2) float32[2,256]
input() float32[4,1]
slice(4) float32[2,1]
mul(3, 5) float32[2,256]
sum(6) float32[2]
slice(0) float32[2,32]
dot(8, 2) float32[2,256]
slice(4) float32[2,1]
mul(9, 10) float32[2,256]
sum(11) float32[2]
concat(7, 12) float32[4]
slice(0) float32[2,32]
dot(14, 6) float32[32,256]
slice(0) float32[2,32]
dot(16, 11) float32[32,256]
add(15, 17) float32[32,256]
"""


@DEVICES
def test_pieces_take_turns(device: DeviceSpec) -> None:
    """Nothing else would keep a GPU from computing all logits at once."""
    buffers = planned(loss("sparse", of_bias=False), device, MemoryBudget(arena=100 * KIB)).buffers
    logits = [node for node in buffers.writer if node.type.dims == (ROWS // 16, CLASSES)]
    lives = [(buffers.levels[buffers.writer[node]], max(map(buffers.levels.__getitem__, buffers.reading(node))))
             for node in logits]
    assert len(lives) == 2 * 16, "logits and their gradients"
    of_pieces = sorted(lives)
    assert all(one[1] <= other[0] for one, other in zip(of_pieces, of_pieces[2:], strict=False))


def test_pieces_take_turns_beside_values_that_are_computed_again() -> None:
    kernels = planned(loss("sparse", of_bias=False), CPU, MemoryBudget(arena=60 * KIB))
    assert len(rows_of_logits(kernels.plan)) > 16, "some logits are computed again"
    gradients = [node for node in kernels.plan.graph.nodes() if isinstance(node.attrs, DotAttrs)
                 and node.attrs.transpose_b]
    assert len(gradients) == 16
    assert set(gradients) <= kernels.plan.graph.after.keys()


@DEVICES
@pytest.mark.parametrize(("kib", "pieces"), [(300, 1), (200, 2), (150, 4), (100, 16)])
def test_as_many_pieces_as_a_budget_wants(device: DeviceSpec, kib: int, pieces: int) -> None:
    kernels = planned(loss("dense", of_bias=False), device, MemoryBudget(arena=kib * KIB))
    assert kernels.buffers.live_bytes <= kib * KIB
    assert rows_of_logits(kernels.plan) == [ROWS // pieces] * pieces


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_of_a_cpu(kind: str) -> None:
    """Not with the same bits: the gradient of weights is added up in another order, and so is what a library makes of a
    matmul of fewer rows."""
    graph = loss(kind)
    values = values_of(graph)
    before, after = compiled(graph, CPU), compiled(graph, CPU, memory=MemoryBudget(arena=200 * KIB))
    assert after.buffers.live_bytes < before.buffers.live_bytes
    compare(graph, run_host(graph, after, values, LIGHT), *reference(graph, values), "in pieces")


def test_kernels_of_a_gpu() -> None:
    graph = loss("ignored", of_bias=False)
    values = values_of(graph)
    after = compiled(graph, H200, barriers=False, memory=MemoryBudget(arena=200 * KIB))
    assert rows_of_logits(after.plan) == [ROWS // 2] * 2
    compare(graph, run_kernel_ir(graph, after, values), *reference(graph, values), "in pieces")


@DEVICES
def test_halves_are_added_up_in_float32(device: DeviceSpec) -> None:
    plan = planned(loss("sparse", dtype=DType.BF16, of_bias=False), device).plan
    [total] = [node for key, node in in_pieces(plan, 8).graph.outputs if key == "o2"]
    assert (total.kind, total.operands[0].type.dtype) == (OpKind.CAST, DType.F32)
    sums = [node for node in in_pieces(plan, 8).graph.nodes() if node.kind is OpKind.ADD
            and node.type.dims == (WIDTH, CLASSES)]
    assert [node.type.dtype for node in sums] == [DType.F32] * 7


def test_results_of_another_shape_are_put_together() -> None:
    """As a mean, of which a few sums are taken first."""
    h, w = B.input("h:0", DType.F32, (ROWS, WIDTH)), B.input("w:0", DType.F32, (WIDTH, CLASSES))
    graph = region("g", [B.reshape(B.sum(B.dot(h, w), [1]), (2, ROWS // 2))])
    values, cut = random_values(graph), in_pieces(planned(graph, CPU).plan, 8)
    assert rows_of_logits(cut) == [ROWS // 8] * 8
    compare(graph, interpret(cut.graph, values), *reference(graph, values), "in pieces")


def test_what_others_read_whole_stays_whole() -> None:
    h, w = B.input("h:0", DType.F32, (ROWS, WIDTH)), B.input("w:0", DType.F32, (WIDTH, CLASSES))
    logits = B.dot(h, w)
    for outputs in ([logits, B.sum(logits, [1])], [B.sum(B.cumsum(B.transpose(logits, [1, 0]), False, False), [1])],
                    [B.sum(B.sub(logits, B.sum(logits, [0], keepdims=True)), [1])]):
        with pytest.raises(ScheduleError):
            in_pieces(planned(region("g", outputs), CPU).plan, 2)


def test_labels_of_another_order_stay_whole() -> None:
    """Indices that are not known to count the elements of their own rows may be those of any."""
    graph = loss("sparse", of_bias=False)
    [index] = [node.operands[1] for node in graph.nodes() if node.kind is OpKind.GATHER]
    graph.outputs.append(("o9", index))
    assert rows_of_logits(in_pieces(planned(graph, CPU).plan, 2)) == [ROWS // 2] * 2
    h, w = B.input("h:0", DType.F32, (ROWS, WIDTH)), B.input("w:0", DType.F32, (WIDTH, CLASSES))
    anywhere = B.input("i:0", DType.I64, (ROWS,))
    found = B.op(OpKind.GATHER, B.reshape(B.dot(h, w), (ROWS * CLASSES,)), anywhere)
    with pytest.raises(ScheduleError, match="reads rows of others"):
        in_pieces(planned(region("g", [found]), CPU).plan, 2)


def rows_of_any_kind(seed: int) -> TensorGraph:
    """What is made of logits, row by row, at random; and what is summed up of it."""
    rng = random.Random(seed)
    h, w = B.input("h:0", DType.F32, (ROWS, WIDTH)), B.input("w:0", DType.F32, (WIDTH, CLASSES))
    logits = value = B.dot(h, w)

    def normal(x: Node) -> Node:
        return B.sub(x, B.reduce(rng.choice((OpKind.MAX, OpKind.SUM)), x, [1], keepdims=True))

    def with_others(x: Node) -> Node:
        shape = rng.choice(((ROWS, CLASSES), (ROWS, 1), (1, CLASSES), (CLASSES,), ()))
        return B.add(x, B.input(f"x{rng.random()}:0", DType.F32, shape))

    def by_place(x: Node) -> Node:
        places = B.positions((ROWS, CLASSES), DType.I32)
        return B.select(B.op(OpKind.LESS, places, B.constant(rng.randrange(ROWS * CLASSES), DType.I32)), x, logits)

    def cut(x: Node) -> Node:
        left = B.slice(x, (0, 0), (1, 1), (ROWS, CLASSES // 2))
        return B.concat([B.slice(x, (0, CLASSES // 2), (1, 1), (ROWS, CLASSES // 2)), left], 1)

    def grouped(x: Node) -> Node:
        groups = B.reshape(x, (ROWS, 4, CLASSES // 4))
        return B.reshape(B.sub(groups, B.sum(groups, [2], keepdims=True)), (ROWS, CLASSES))

    def padded(x: Node) -> Node:
        wider = B.pad(x, B.constant(1.0, DType.F32), (0, 0), (0, 8))
        return B.slice(wider, (0, 8), (1, 1), (ROWS, CLASSES))

    for _ in range(4):
        value = B.op(OpKind.TANH, rng.choice((normal, with_others, by_place, cut, grouped, padded))(value))
    ends = [B.dot(value, w, transpose_b=True), B.dot(h, value, transpose_a=True), B.sum(value, [1]), B.sum(value, [0]),
            B.sum(value, [0, 1])]
    return region("g", rng.sample(ends, 3))


@DEVICES
@pytest.mark.parametrize("seed", each_commit(range(4), range(40)))
def test_rows_of_any_kind(device: DeviceSpec, seed: int) -> None:
    graph = rows_of_any_kind(seed)
    values = random_values(graph, seed)
    cut = in_pieces(planned(graph, device).plan, 2)
    assert rows_of_logits(cut).count(ROWS // 2) >= 2
    compare(graph, interpret(cut.graph, values), *reference(graph, values), f"seed {seed}")
