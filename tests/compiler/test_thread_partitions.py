"""Kernels share a block's threads in steps of 128, in any order of sizes that their families have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import compiled, region
from tests.kernel_ir.test_thread_ranges import WIDE, check, interpreted, memory_of, x
from tf_stitch.compiler.template_kernels import templated
from tf_stitch.compiler.thread_partitions import STEP, bounded, can_share, partition_of, partitions
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.kernel_ir.thread_ranges import BARRIERS
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.templates import parse_template

B = p.B


def kernel_of(*outputs: Node) -> LoweredKernel:
    (kernel,) = compiled(region("g", list(outputs)), H200).kernels
    return kernel


def elements() -> LoweredKernel:
    return kernel_of(B.op(OpKind.TANH, x(9000)))


def short_rows() -> LoweredKernel:
    return kernel_of(p.softmax(x(33, 20)))


def columns() -> LoweredKernel:
    return kernel_of(B.sum(x(20, 40), [0]))


def transposed() -> LoweredKernel:
    """Its family has blocks of one size."""
    return kernel_of(B.transpose(B.op(OpKind.TANH, x(70, 50)), [1, 0]))


def threads_of(*kernels: LoweredKernel) -> list[tuple[int, ...]]:
    return [partition.threads for partition in partitions(kernels, H200)]


def test_threads_go_in_steps_of_128() -> None:
    steps = range(STEP, 1024, STEP)
    want = [(a, b) for a in steps for b in steps if a + b <= 1024]
    assert sorted(threads_of(elements(), short_rows())) == want
    assert sorted(threads_of(elements(), columns())) == want


def test_a_family_of_one_size_keeps_it() -> None:
    own = transposed().program.threads
    assert own % STEP == 0
    assert sorted(threads_of(transposed(), elements())) == [(own, n) for n in range(STEP, 1024 - own + 1, STEP)]


def test_partitions_near_the_kernels_own_blocks_come_first() -> None:
    one, two = elements(), short_rows()
    found = threads_of(one, two)
    own = one.program.threads, two.program.threads
    distances = [sum(abs(a - b) for a, b in zip(threads, own, strict=True)) for threads in found]
    assert distances == sorted(distances)
    small = kernel_of(B.op(OpKind.TANH, x(9000)))
    small = templated(parse_template("*[GRID-CTA_64];"), small, H200, True)
    assert small.program.threads == 64
    assert threads_of(small, two)[0] == (128, own[1]), "64 threads are no part"


def test_blocks_that_are_too_large_together_get_smaller() -> None:
    wide = templated(parse_template("*[GRID-CTA_1024];"), elements(), H200, True)
    assert wide.program.threads == 1024
    assert sum(threads_of(wide, short_rows())[0]) <= 1024


def wide_rows() -> LoweredKernel:
    """Those of a block lie in its memory between the phases."""
    return templated(parse_template(WIDE["wide rows"]), kernel_of(p.softmax(x(5, 3000))), H200, True)


def arg_max() -> LoweredKernel:
    return kernel_of(B.arg_reduce(OpKind.ARGMAX, x(7, 1100), 1, p.DType.I64))


@pytest.mark.parametrize("make", [elements, short_rows, columns, wide_rows, arg_max], ids=lambda make: make.__name__)
def test_kernels_of_other_blocks_compute_the_same(make: Callable[[], LoweredKernel]) -> None:
    """But for the order in which they add."""
    kernel = make()
    memory = memory_of(kernel.program, 1)
    want = interpreted(kernel.program, memory)
    others = {threads[0] for threads in threads_of(kernel, elements())} - {kernel.program.threads}
    assert others
    for threads in sorted(others):
        found = partition_of((kernel, elements()), (threads, 128), 0, H200)
        assert found is not None
        program = found.kernels[0].program
        verify_program(program)
        for name, value in interpreted(program, memory).items():
            np.testing.assert_allclose(value, want[name], rtol=1e-5, atol=1e-6, err_msg=f"{threads} threads")


@pytest.mark.parametrize("threads", [(384, 640), (640, 128), (896, 128), (128, 384)])
def test_odd_multiples_compute_the_same(threads: tuple[int, int]) -> None:
    """Interpreted, and as CUDA on a CPU."""
    for pair in ((short_rows(), columns()), (columns(), elements())):
        found = partition_of(pair, threads, 0, H200)
        assert found is not None
        check(*(kernel.program for kernel in found.kernels))


def test_rows_of_a_whole_block_stay_whole() -> None:
    rows = wide_rows()
    width = rows.schedule.mapping.row_threads
    assert width > STEP
    assert {threads[0] for threads in threads_of(rows, short_rows())} == set(range(width, 1024, width))
    found = partition_of((rows, short_rows()), (2 * width, 128), 0, H200)
    assert found is not None
    check(*(kernel.program for kernel in found.kernels))


def test_three_kernels() -> None:
    kernels = elements(), short_rows(), columns()
    found = threads_of(*kernels)
    assert len(set(found)) == len(found) == 56
    assert all(len(threads) == 3 and sum(threads) <= 1024 for threads in found)
    assert not threads_of(*[elements()] * 9), "nine parts of 128 threads are no block"


def test_a_block_needs_a_barrier_for_each() -> None:
    pair = elements(), short_rows()
    assert not list(partitions(pair, replace(H200, block_barriers=2)))
    assert list(partitions(pair, replace(H200, block_barriers=3)))
    assert H200.block_barriers == BARRIERS
    assert not can_share(compiled(region("g", [B.op(OpKind.TANH, x(900))]), CPU).kernels[0], CPU)


def test_what_is_written_over_keeps_its_blocks() -> None:
    kernel = elements()
    program = kernel.program
    updating = replace(kernel, program=replace(program, buffers=tuple(
        replace(b, mode=Mode.UPDATE) if b.mode is Mode.WRITE else b for b in program.buffers)))
    assert {threads[0] for threads in threads_of(updating, short_rows())} == {program.threads}


def test_what_has_inlined_matmuls_keeps_its_blocks() -> None:
    """What it is given are values of a graph that its pattern no longer has."""
    a, b = B.input("a:0", p.DType.F32, (300, 3)), B.input("b:0", p.DType.F32, (3, 40))
    (kernel,) = compiled(region("g", [B.op(OpKind.TANH, B.dot(B.op(OpKind.EXP, a), b))]), H200).kernels
    found = list(partitions((kernel, elements()), H200))
    assert found
    for partition in found:
        assert {n for n, _ in partition.kernels[0].arguments} == {n for n, _ in kernel.arguments}


def test_a_partition_by_its_threads() -> None:
    pair = elements(), short_rows()
    for partition in (*partitions(pair, H200),):
        found = partition_of(pair, partition.threads, 3, H200)
        assert found is not None
        assert (found.threads, found.resident) == (partition.threads, 3)
    for wrong in ((128,), (128, 128, 128), (128, 100), (1024, 128), (512, 640), (0, 128), (-128, 128)):
        assert partition_of(pair, wrong, 0, H200) is None, wrong


def test_the_bound_keeps_as_many_blocks_resident_as_of_any_kernel_alone() -> None:
    free = next(partitions((elements(), short_rows()), H200))
    found = bounded(free, H200)
    assert found is not None
    assert found.kernels == free.kernels
    assert found.program.resident == found.resident == 2048 // sum(free.threads)
    verify_program(found.program)
    widest = next(p for p in partitions((elements(), short_rows()), H200) if sum(p.threads) == 1024)
    few = replace(H200, registers=256 * 40)
    assert bounded(widest, few) is None, "one block may have all registers"
