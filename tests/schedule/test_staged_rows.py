"""What a block keeps of a row in registers: by what is needed at one time."""

from __future__ import annotations

from tests.differential.runner import compiled, region
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.schedule.kernel_schedule import KernelSchedule

B = Builder()
ROWS, COLUMNS = 8192, 32000


def schedule(outputs: list[Node]) -> KernelSchedule:
    [kernel] = compiled(region("cross_entropy", outputs), H200).kernels
    return kernel.schedule


def cross_entropy(target: Node) -> list[Node]:
    """Loss and gradient; `target` is 1 where the label is."""
    x = B.input("x:0", DType.F32, (ROWS, COLUMNS))
    shifted = B.sub(x, B.reduce(OpKind.MAX, x, [1], True))
    e = B.exp(shifted)
    total = B.sum(e, [1], True)
    picked = B.sum(B.mul(target, shifted), [1], True)
    return [B.sub(B.op(OpKind.LOG, total), picked), B.sub(B.div(e, total), target)]


def test_exponentials_take_the_place_of_their_operand() -> None:
    label = B.broadcast(B.input("label:0", DType.I32, (ROWS, 1)), (ROWS, COLUMNS))
    hot = B.cast(B.op(OpKind.EQUAL, B.iota((ROWS, COLUMNS), 1, DType.I32), label), DType.F32)
    found = schedule(cross_entropy(hot))
    assert (found.mapping.threads, found.mapping.row_blocks) == (1024, 1)
    assert [s.node.kind for s in found.staged] == [OpKind.INPUT, OpKind.EXP]


def test_two_rows_that_registers_do_not_hold_are_shared_by_blocks() -> None:
    targets = B.input("targets:0", DType.F32, (ROWS, COLUMNS))
    found = schedule(cross_entropy(targets))
    assert (found.mapping.row_blocks, found.mapping.cluster) == (2, True)
    assert {s.node.kind for s in found.staged} == {OpKind.INPUT}, "what is computed is computed again"
