"""Blocks of a cluster that send to each other: right programs run, others are refused, before they run and while."""

from __future__ import annotations

import numpy as np
import pytest

from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.array_memory import place_arrays
from tf_stitch.kernel_ir.count_work import count_work
from tf_stitch.kernel_ir.index import Index, Var, constant, var
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import arrays

BLOCKS, CLUSTER, THREADS = 8, 4, 4
F32 = DType.F32
T, BLOCK = var(Var(k.THREAD, THREADS)), var(Var(k.BLOCK, BLOCKS))
RANK, HERE = BLOCK % CLUSTER, BLOCK * THREADS + T
X = k.Buffer("x", F32, BLOCKS * THREADS, k.Mode.READ)
Y = k.Buffer("y", F32, BLOCKS * THREADS, k.Mode.WRITE)
PARTS = k.Array("parts", F32, CLUSTER, k.Space.SHARED, received=True)
STARTED, BARRIER = k.ClusterStarted(), k.ClusterBarrier()


def send(array: str = "parts", index: Index = RANK, block: Index = T) -> k.Stmt:
    """A thread sends to a block."""
    return k.Send(array, index, k.Load("x", HERE, F32), block)


def read(array: str = "parts", index: Index = T) -> k.Stmt:
    return k.Store("y", HERE, k.Element(array, index, F32))


def program(*body: k.Stmt, cluster: int = CLUSTER, grid: int = BLOCKS) -> k.Program:
    return k.Program((X, Y), grid, THREADS, body, cluster=cluster)


def run(p: k.Program) -> np.ndarray:
    memory = {"x": np.arange(BLOCKS * THREADS, dtype=np.float32), "y": np.zeros(BLOCKS * THREADS, np.float32)}
    interpret_program(p, memory)
    return memory["y"]


GOOD = (PARTS, STARTED, send(), BARRIER, read())


def test_what_was_sent_is_there_behind_the_barrier() -> None:
    """A transpose within each cluster."""
    p = program(*GOOD)
    verify_program(p)
    x = np.arange(BLOCKS * THREADS, dtype=np.float32).reshape(-1, CLUSTER, THREADS)
    np.testing.assert_array_equal(run(p), x.transpose(0, 2, 1).reshape(-1))


def test_an_array_may_be_declared_after_others_sent_to_it() -> None:
    """Blocks run one after the other here, on a device side by side."""
    p = program(STARTED, PARTS, send(), BARRIER, read())
    verify_program(p)
    np.testing.assert_array_equal(run(p), run(program(*GOOD)))


SECOND = (send(), BARRIER, read())


@pytest.mark.parametrize(("body", "refused", "raises"), [
    ((PARTS, send(), BARRIER, read()), "before the cluster has started", "may not have started"),
    ((PARTS, STARTED, send(), read()), "no cluster barrier after its sending", "with no cluster barrier between"),
    ((PARTS, STARTED, send()), "no cluster barrier after its sending", "ends while"),
    ((*GOOD, send(), BARRIER), None, "reads it with no cluster barrier between"),
    ((PARTS, STARTED, send(index=T), BARRIER, read()), None, "send to parts"),
    ((PARTS, STARTED, k.If(k.InRange(T, 0, 2), (BARRIER,))), "where threads may miss it", "no rule for ClusterBarrier"),
    ((PARTS, k.For(Var("i", 2), (STARTED,))), "where threads may miss it", "no rule for ClusterStarted"),
    ((PARTS, STARTED, send(block=T + 1), BARRIER, read()), None, "4 blocks"),
    ((PARTS, STARTED, send(index=RANK + 1), BARRIER), None, "4 elements"),
    ((PARTS, STARTED, k.SetElement("parts", T, k.Literal(0.0, F32))), "written by sending", None),
    ((k.Array("parts", F32, CLUSTER, k.Space.SHARED), STARTED, send(), BARRIER, read()), "receives nothing", None),
    ((k.Array("parts", F32, CLUSTER, received=True),), "cannot be sent to", None),
    ((PARTS, STARTED, STARTED), "starts twice", None),
])
def test_wrong_programs(body: tuple[k.Stmt, ...], refused: str | None, raises: str | None) -> None:
    """What the verifier cannot know the interpreter finds, and what it does know mostly, too."""
    p = program(*body)
    if refused is None:
        verify_program(p)
    else:
        with pytest.raises(VerifyError, match=refused):
            verify_program(p)
    if raises is not None:
        with pytest.raises(VerifyError, match=raises):
            run(p)


def test_what_was_read_may_be_sent_to_behind_a_barrier() -> None:
    p = program(*GOOD, BARRIER, *SECOND)
    verify_program(p)
    np.testing.assert_array_equal(run(p), run(program(*GOOD)))


@pytest.mark.parametrize(("p", "why"), [
    (program(*GOOD, cluster=1), "no cluster"), (program(*GOOD, cluster=3), "8 blocks in clusters of 3"),
    (program(k.GridLoop(BLOCKS, (*GOOD, k.Barrier()))), "a grid loop of clusters")])
def test_grids_that_are_no_clusters(p: k.Program, why: str) -> None:
    with pytest.raises(VerifyError, match=why):
        verify_program(p)


def test_memory_that_others_send_to_is_nobody_elses() -> None:
    """A barrier of the block says nothing of what other blocks send."""
    first, last = (k.Array(name, F32, CLUSTER, k.Space.SHARED) for name in ("first", "last"))
    use = tuple(s for a in ("first", "last") for s in (k.SetElement(a, T, k.Literal(1.0, F32)), k.Barrier()))
    placed = place_arrays(program(first, PARTS, last, use[0], use[1], *GOOD[1:], BARRIER, use[2]))
    offsets = {a.name: a.offset for a in arrays(placed.body)}
    assert offsets["first"] == offsets["last"] != offsets["parts"]


def test_cluster_barriers_are_counted() -> None:
    assert count_work(program(*GOOD, BARRIER, *SECOND)).cross_block_reductions == 3
    sums = k.AllReduce((("sum", OpKind.SUM),), THREADS)
    assert count_work(program(k.Accumulator("sum", F32, 0), sums)).cross_block_reductions == 0


def test_a_constant_place_is_one_place() -> None:
    """All blocks send to one element: the last would win."""
    with pytest.raises(VerifyError, match="send to parts"):
        run(program(PARTS, STARTED, send(index=constant(0)), BARRIER, read(index=constant(0))))
