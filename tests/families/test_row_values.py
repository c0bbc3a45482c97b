"""Dear values of rows that a block computes once and shares: against float64, in kernel IR and as CUDA source on a CPU
in adversarial order; and at the papers' sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential.runner import build_cubin, compare, compiled, random_values, reference, region, run_kernel_ir
from tests.families.test_register_windows import check as check_program
from tests.families.test_register_windows import pattern_of
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.compiler.tilings import template_of
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ScheduleError
from tf_stitch.families import row_values
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.kernel_ir.text_format import format_program
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.schedule.kernel_schedule import Scheme
from tf_stitch.schedule.schemes import edges_of

B, F32, F16, BF16 = Builder(), DType.F32, DType.F16, DType.BF16


def power(value: Node) -> Node:
    """A positive number to a power that no kernel replaces by multiplications."""
    return B.op(K.POW, B.add(B.mul(value, value), B.scalar_like(0.5, value)), B.scalar_like(1.3, value))


def broadcast_power(rows: int, cols: int, dtype: DType = F32, *, read: bool = False) -> TensorGraph:
    """power -> broadcast<rows, cols>; where `read`, added to a tensor of that size."""
    value = B.broadcast(B.reshape(power(B.input("v:0", dtype, (rows,))), (rows, 1)), (rows, cols))
    return region("g", [B.add(value, B.input("x:0", dtype, (rows, cols))) if read else value])


def dear_chain(rows: int, cols: int) -> TensorGraph:
    """Three powers and a hyperbolic tangent of each row, added to all of its elements."""
    value = B.input("v:0", F32, (rows, 1))
    for _ in range(3):
        value = power(value)
    return region("g", [B.add(B.input("x:0", F32, (rows, cols)), B.op(K.TANH, value))])


def families(found: CompiledRegion) -> list[str]:
    return [kernel.schedule.family for kernel in found.kernels]


def check_kernel_ir(graph: TensorGraph) -> CompiledRegion:
    found = compiled(graph, H200)
    assert row_values.NAME in families(found)
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, found, values), want, allowed, "kernel IR")
    return found


def check(graph: TensorGraph, order: Order = Order.SHUFFLED) -> CompiledRegion:
    found = check_kernel_ir(graph)
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_on_cpu(graph, found, values, Adversary(order)), want, allowed, "CUDA on a CPU")
    return found


@pytest.mark.parametrize("order", Order, ids=lambda order: order.name)
def test_threads_wait_for_the_values_of_their_rows(order: Order) -> None:
    check(broadcast_power(67, 128, read=True), order)


@pytest.mark.parametrize(("rows", "cols", "dtype"), [(200, 72, F32), (9, 1024, F32), (3, 5000, F32), (65, 256, F16),
                                                     (64, 513, BF16), (2, 64, DType.F64), (300, 35, F32)])
def test_rows_of_any_length(rows: int, cols: int, dtype: DType) -> None:
    build_cubin(check(broadcast_power(rows, cols, dtype, read=True)))


@settings(max_examples=10)
@given(st.integers(2, 90), st.integers(32, 300), st.booleans())
def test_sizes_of_rows(rows: int, cols: int, read: bool) -> None:
    check_kernel_ir(broadcast_power(rows, cols, read=read))


def test_threads_with_rows_in_turn() -> None:
    """As of many rows: a thread has four, one after the other."""
    graph = broadcast_power(150, 64, read=True)
    [schedule] = row_values.propose_row_values(pattern_of(graph), H200, True)
    rows = 4 * schedule.mapping.rows_per_block
    mapping = replace(schedule.mapping, rows_per_block=rows, grid=-(-150 // rows))
    assert mapping.waves == 4
    check_program(graph, row_values.lower_row_values(replace(schedule, mapping=mapping)))


def test_values_of_several_axes_and_what_is_written_of_rows() -> None:
    """Two dear values share a power; one of them is wanted itself, as is a cheap number of each row."""
    value = power(B.input("v:0", F32, (5, 7)))
    one, two = B.reshape(value, (5, 7, 1, 1)), B.reshape(B.op(K.TANH, value), (5, 7, 1, 1))
    x = B.input("x:0", F32, (5, 7, 6, 32))
    found = check(region("g", [B.add(B.mul(x, one), two), value, B.neg(value)]))
    assert families(found) == [row_values.NAME]
    assert len(found.kernels[0].schedule.staged) == 2


@pytest.mark.parametrize(("rows", "cols"), [(65536, 128), (65536, 1024)])
def test_a_power_of_each_row_is_computed_once(rows: int, cols: int) -> None:
    """AStitch's dilemma of an element-wise op before a broadcast, at its sizes."""
    found = compiled(broadcast_power(rows, cols), H200)
    assert families(found) == [row_values.NAME]
    before, after = format_program(found.kernels[0].program).split("barrier")
    assert before.count("pow(") == 1
    assert "pow(" not in after
    [kernel] = found.kernels
    m = kernel.schedule.mapping
    assert m.grid * m.rows_per_block == rows, "each row in one block"
    memory = compiled(region("g", [B.broadcast(B.input("v:0", F32, (rows, 1)), (rows, cols))]), H200).kernels
    assert predict_us(kernel.program, H200) < 1.15 * predict_us(memory[0].program, H200)


def test_three_powers_of_each_row_take_hardly_longer_than_memory() -> None:
    [kernel] = compiled(dear_chain(65536, 128), H200).kernels
    memory = region("g", [B.add(B.input("x:0", F32, (65536, 128)), B.input("v:0", F32, (65536, 1)))])
    [moved] = compiled(memory, H200).kernels
    assert predict_us(kernel.program, H200) < 1.15 * predict_us(moved.program, H200)


def test_the_report_names_the_scheme() -> None:
    [kernel] = compiled(dear_chain(512, 128), H200).kernels
    [shared] = [edge for edge in edges_of(kernel.schedule) if edge.scheme is Scheme.REGIONAL]
    assert shared.value.kind is K.TANH
    assert shared.why == "a thread of the block computes it for each row, and all threads of the row read it"
    assert str(template_of(kernel.schedule))


def reasons(graph: TensorGraph) -> str:
    with pytest.raises(ScheduleError) as found:
        row_values.propose_row_values(pattern_of(graph), H200, True)
    return found.value.message


def test_what_it_does_not_take() -> None:
    with pytest.raises(ScheduleError, match="CPU"):
        row_values.propose_row_values(pattern_of(broadcast_power(8, 64)), CPU, True)
    x, row = B.input("x:0", F32, (64, 128)), B.input("v:0", F32, (64, 1))
    assert "no dear value" in reasons(region("g", [B.add(x, B.op(K.RSQRT, row))]))
    assert "no dear value" in reasons(region("g", [B.add(x, power(B.input("c:0", F32, (128,))))])), "of columns"
    assert "few threads" in reasons(broadcast_power(64, 16))
    assert "reduction" in reasons(region("g", [B.sum(B.add(x, power(row)), [1])]))
    assert "neither a row nor" in reasons(region("g", [B.add(x, power(row)), B.neg(B.input("z:0", F32, (3,)))]))


def test_elements_of_other_rows_are_left_to_other_families() -> None:
    """Moved along the rows: what an element needs is not what its row has."""
    value = B.broadcast(power(B.input("v:0", F32, (64, 1))), (64, 128))
    graph = region("g", [B.add(B.slice(value, (63, 0), (-1, 1), (64, 128)), B.input("x:0", F32, (64, 128)))])
    found = compiled(graph, H200)
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, found, values), want, allowed, "kernel IR")
    with pytest.raises(ScheduleError, match="other rows"):
        row_values.lower_row_values(row_values.propose_row_values(pattern_of(graph), H200, True)[0])
