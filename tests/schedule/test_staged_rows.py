"""What a block keeps of a row in registers: by what is needed at one time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.differential.runner import (
    build_cubin,
    compare,
    compiled,
    keys_of,
    random_values,
    reference,
    region,
    run_kernel_ir,
)
from tests.support.cuda_on_cpu import ADVERSARIES, run_on_cpu
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.config import ForcedTemplate
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.templates import parse_template

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
    assert [(s.node.kind, s.instead_of and s.instead_of.kind) for s in found.staged] == [
        (OpKind.INPUT, None), (OpKind.INPUT, None), (OpKind.EXP, OpKind.INPUT)]


def padded(rows: int, columns: int, last: Callable[[Node, Node], Node]) -> TensorGraph:
    """A softmax whose last columns do not count; `last` makes the output of the exponentials and of their operand."""
    x = B.input("x:0", DType.BF16, (rows, columns))
    wide = B.cast(x, DType.F32)
    counts = B.op(OpKind.LESS, B.iota((rows, columns), 1, DType.I32), B.constant(columns - 3, DType.I32))
    maximum = B.reduce(OpKind.MAX, B.select(counts, wide, B.constant(-np.inf, DType.F32)), [1], True)
    e = B.exp(B.sub(wide, maximum))
    total = B.sum(B.select(counts, e, B.constant(0, DType.F32)), [1], True)
    result = B.select(counts, B.div(last(e, wide), total), B.constant(0, DType.F32))
    return region("padded", [B.cast(result, DType.BF16)])


def test_masked_exponentials_take_the_place_of_their_operand_too() -> None:
    [kernel] = compiled(padded(1024, 50264, lambda e, x: e), H200).kernels
    assert [(s.node.kind, s.instead_of and s.instead_of.kind) for s in kernel.schedule.staged] == [
        (OpKind.INPUT, None), (OpKind.EXP, OpKind.INPUT)]


def test_an_operand_that_is_needed_later_keeps_its_place() -> None:
    [kernel] = compiled(padded(1024, 50264, B.mul), H200).kernels
    assert [s.node.kind for s in kernel.schedule.staged] == [OpKind.INPUT]


def in_two_places(graph: TensorGraph, accesses: str = "THREAD_3-THREAD_2") -> LoweredKernel:
    """The only kernel, of clusters of two blocks that keep accesses in registers and in shared memory."""
    built = forced(graph, accesses)
    [kernel] = built.kernels
    assert kernel.schedule.mapping.beyond
    assert kernel.schedule.mapping.row_blocks == 2
    return kernel


def forced(graph: TensorGraph, accesses: str) -> CompiledRegion:
    template = parse_template(f"*[GRID,{accesses}-CLUSTER_2-CTA_512-THREAD_8];")
    choice = TemplateChoice(H200, True, (ForcedTemplate("*", template),), None)
    return compile_region(graph, *keys_of(graph), CompileOptions(H200, PlanOptions("greedy", barriers=False),
                                                                 templates=choice))


@pytest.mark.parametrize("last", [lambda e, x: e, B.mul], ids=["replaced", "kept"])
def test_values_in_place_of_others_are_right(last: Callable[[Node, Node], Node]) -> None:
    graph = padded(2, 33000, last)
    in_two_places(graph)
    built, values = forced(graph, "THREAD_3-THREAD_2"), random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, built, values), want, allowed, "kernel IR")
    compare(graph, run_on_cpu(graph, built, values, ADVERSARIES[0]), want, allowed, "CUDA on a CPU")
    build_cubin(built)
