"""Kernels made for sizes that change: right for every size, and one kernel wherever the text says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.differential.generator import values_for
from tests.differential.patterns import softmax
from tests.differential.runner import (
    LIGHT,
    Values,
    add_written,
    cache,
    compare,
    keys_of,
    random_values,
    reference,
    results_by_key,
    run_kernel_ir,
)
from tests.differential.runner import region as graph_of
from tests.differential.sizes import SIZES, Case
from tests.ir.test_activations import relu
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError, TypeRuleError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import atoms, size
from tf_stitch.kernel_ir.instantiate import instantiate
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_run import HostExecutable
from tf_stitch.runtime.nvrtc_builder import build_cuda

B = Builder()


def make_cases(steps: int, elements: int, multiple: int = 1) -> st.SearchStrategy[Case]:
    pairs = st.lists(st.tuples(st.sampled_from(SIZES), st.sampled_from(SIZES)), min_size=2, max_size=3, unique=True)
    return st.builds(Case, st.integers(0, 1 << 32), pairs, st.just(steps), st.just(elements),
                     st.just(multiple))


def compiled(case: Case, n: int, m: int, device: DeviceSpec, plans: PlanMemory) -> tuple[TensorGraph, CompiledRegion]:
    """The graph as numbers, and the region compiled for sizes that change."""
    try:
        return case.compiled(n, m, device, plans)
    except (TypeRuleError, ScheduleError):  # such a graph is compiled for its numbers
        assume(False)
        raise AssertionError from None


def with_numbers_of(known: Program, wanted: Program) -> Program:
    """`known`, instantiated for the sizes of `wanted`, of which it has to be the same kernel."""
    values = {a.name: a.value for x in walk(wanted) for a in atoms(x)}
    program = instantiate(known, values)
    assert program.grid == int(wanted.grid)
    assert [b.size for b in program.buffers] == [int(b.size) for b in wanted.buffers]
    return replace(program, buffers=tuple(replace(b, mode=w.mode) for b, w in
                                          zip(program.buffers, wanted.buffers, strict=True)))


def walk(x: Any) -> Iterator[int]:
    """Every number in a program."""
    if isinstance(x, int):
        yield x
    elif isinstance(x, tuple):
        for y in x:
            yield from walk(y)
    elif is_dataclass(x) and not isinstance(x, type):
        for field in fields(x):
            yield from walk(getattr(x, field.name))


@settings(max_examples=40)
@given(make_cases(6, 300))
def test_one_library_serves_all_sizes(case: Case) -> None:
    plans, libraries = PlanMemory(), dict[str, Path]()
    for n, m in case.pairs:
        graph, region = compiled(case, n, m, CPU, plans)
        values = add_written(graph, values_for(graph, n * 100 + m))
        new = [symbol for symbol in region.rendered if symbol not in libraries]
        if new:
            library = build_host(region.source, "native", cache(), LIGHT)
            libraries |= dict.fromkeys(new, library)
        used = sorted({libraries[symbol] for symbol in region.rendered})
        outs, state = HostExecutable(region.executable, *used).run(values, values)
        compare(graph, results_by_key(graph, outs, state), *reference(graph, values), f"CPU code for {n}, {m}")


@pytest.mark.parametrize("device", [CPU, H200], ids=["cpu", "h200"])
@settings(max_examples=20)
@given(case=make_cases(5, 60) | make_cases(4, 2200, 64))
def test_a_kernel_is_the_same_program_for_other_sizes(device: DeviceSpec, case: Case) -> None:
    """What the interpreter runs for the second size is the first size's program with other numbers."""
    plans = PlanMemory()
    programs: dict[str, tuple[Program, ...]] = {}
    for n, m in case.pairs:
        graph, region = compiled(case, n, m, device, plans)
        for symbol in region.programs:
            known = programs.setdefault(symbol, region.programs[symbol])
            region.programs[symbol] = tuple(map(with_numbers_of, known, region.programs[symbol]))
        values: Values = values_for(graph, n * 100 + m)
        compare(graph, run_kernel_ir(graph, region, values), *reference(graph, values), f"{device.name} IR, {n}, {m}")


def test_cuda_for_changing_sizes_compiles() -> None:
    case = Case(11, [(5, 8)], 8, 200)
    _, region = compiled(case, 5, 8, H200, PlanMemory())
    assert build_cuda(region.source, "90", cache()).stat().st_size > 0


def test_cuda_of_a_sum_of_all_before_sums_of_columns_compiles() -> None:
    """Each block sums all itself: what runs over the elements is a variable, whatever their number is made of."""
    shape = size("n", 7), size("m", 5), 4
    total = B.broadcast(B.sum(B.input("x", DType.F32, shape), (0, 1, 2)), shape)
    scaled = B.add(B.mul(B.input("z", DType.F32, shape), total), total)
    graph = graph_of("before", [B.sum(scaled, (0,)), B.sum(scaled, (0, 1))])
    region = compile_region(graph, *keys_of(graph), CompileOptions(H200, plans=PlanMemory()))
    assert [kernel.schedule.family for kernel in region.kernels] == ["column_reduction"] * 2
    for kernel in region.kernels:
        verify_program(kernel.program)
    assert build_cuda(region.source, "90", cache()).stat().st_size > 0


def network(rows: int) -> TensorGraph:
    """Two dense layers with a residual; the calls take over what follows the matmuls."""
    x = B.input("x", DType.F32, (2, rows, 32))
    flat = B.reshape(x, (2 * rows, 32))
    hidden = relu(B.add(B.dot(flat, B.variable("w", DType.F32, (32, 48))), B.variable("b", DType.F32, (48,))))
    out = B.reshape(B.dot(hidden, B.variable("v", DType.F32, (48, 32))), (2, rows, 32))
    return graph_of("network", [B.add(B.add(out, B.variable("c", DType.F32, (32,))), x)])


def test_library_calls_take_over_alike_for_all_sizes() -> None:
    plans = PlanMemory()
    for rows in (20, 3, 33):
        graph, changing = network(rows), network(size("n", rows))
        region = compile_region(changing, *keys_of(changing), CompileOptions(CPU, plans=plans))
        assert not region.kernels
        assert [str(c.call.at_hand()).partition("] ")[2] for c in region.calls] == ["nn + bias relu",
                                                                                   "nn + bias + addend"]
        values = random_values(graph)
        outs, _ = HostExecutable(region.executable).run(values, values)
        compare(graph, results_by_key(graph, outs, {}), *reference(graph, values), f"{rows} rows")


def heads(batch: int, length: int) -> TensorGraph:
    """Scores of heads: queries by keys, both [sequences, length, heads, depth]."""
    q, k = (B.transpose(B.input(key, DType.F32, (batch, length, 4, 20)), (0, 2, 1, 3)) for key in "qk")
    back = B.transpose(B.dot(B.dot(q, k, False, True), q), (0, 2, 1, 3))
    return graph_of("heads", [B.reshape(back, (batch, length, 80))])


def test_calls_read_and_write_heads_of_any_number_of_sequences() -> None:
    plans = PlanMemory()
    for batch, length in ((3, 20), (2, 33), (1, 24)):
        graph, changing = heads(batch, length), heads(size("b", batch), size("n", length))
        region = compile_region(changing, *keys_of(changing), CompileOptions(CPU, plans=plans))
        assert not region.kernels
        values = random_values(graph)
        outs, _ = HostExecutable(region.executable).run(values, values)
        compare(graph, results_by_key(graph, outs, {}), *reference(graph, values), f"{batch} sequences of {length}")


def attention(length: int) -> TensorGraph:
    """One row of queries looks at a cache."""
    queries = B.input("q", DType.F32, (3, 1, 32))
    keys, values = (B.input(key, DType.F32, (3, length, 32)) for key in "kv")
    return graph_of("attention", [B.dot(softmax(B.dot(queries, keys, False, True)), values)])


def test_matmuls_of_one_row_have_the_same_kernels_for_all_sizes() -> None:
    plans, programs = PlanMemory(), dict[str, tuple[Program, ...]]()
    for length in (37, 45, 61):  # softmax has others below 33
        graph, changing = attention(length), attention(size("n", length))
        region = compile_region(changing, *keys_of(changing), CompileOptions(H200, plans=plans))
        assert not region.calls
        programs = programs or dict(region.programs)
        assert set(region.programs) == set(programs)
        for symbol, known in programs.items():
            region.programs[symbol] = tuple(map(with_numbers_of, known, region.programs[symbol]))
        values = random_values(graph)
        compare(graph, run_kernel_ir(graph, region, values), *reference(graph, values), f"{length} rows")


def masked_mean(batch: int, length: int) -> TensorGraph:
    """What a mean over the tokens of a batch leaves: the mask, and the sums of the losses and of the mask."""
    said = B.input("said", DType.I32, (batch, length))
    alive = B.cast(B.op(OpKind.NOT_EQUAL, said, B.constant(0, DType.I32)), DType.F32)
    each = B.mul(alive, B.input("each", DType.F32, (batch, length)))
    return graph_of("masked_mean", [alive, each, B.div(B.sum(each, (0, 1)), B.sum(alive, (0, 1)))])


@pytest.mark.parametrize("multiple", [1, 4])
def test_rows_that_threads_could_take_whole_end_where_they_end(multiple: int) -> None:
    """Accesses that are unrolled may be more than a row has, also if the row's length is a multiple of one."""
    plans, programs = PlanMemory(), dict[str, tuple[Program, ...]]()
    for length in (20, 28, 24, 32, 36):
        graph, changing = masked_mean(64, length), masked_mean(64, size("n", length, multiple))
        region = compile_region(changing, *keys_of(changing), CompileOptions(H200, plans=plans))
        for symbol in region.programs:
            known = programs.setdefault(symbol, region.programs[symbol])
            region.programs[symbol] = tuple(map(with_numbers_of, known, region.programs[symbol]))
        values = random_values(graph)
        compare(graph, run_kernel_ir(graph, region, values), *reference(graph, values), f"{length} long")
