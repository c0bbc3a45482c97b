"""Work counted from kernel programs."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compiled, region
from tf_stitch.device.spec import CPU, H200, DeviceSpec, gpu_spec
from tf_stitch.families.mixed import MIXED
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.kernel_ir.count_work import count_work
from tf_stitch.kernel_ir.moved_bytes import moved_bytes, moved_once
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.work import Work
from tf_stitch.passes.matmuls_to_kernels import in_kernel

B, F32 = p.B, DType.F32


def x(*shape: int, name: str = "x") -> Node:
    return B.input(f"{name}:0", F32, shape)


def only(device: DeviceSpec, *outputs: Node) -> tuple[Program, Work]:
    kernels = compiled(region("work", list(outputs)), device).kernels
    assert len(kernels) == 1
    return kernels[0].program, count_work(kernels[0].program)


def total(work: dict[tuple[DType, K], float], kind: K) -> float:
    return sum(count for (_, k), count in work.items() if k is kind)


def test_every_element_moves_once_in_each_direction() -> None:
    for device in (CPU, H200):
        program, work = only(device, B.exp(x(64, 1024)))
        assert moved_bytes(program, work) == 2 * 4 * 64 * 1024
        threads = program.grid * program.threads
        assert threads * (total(work.scalar, K.EXP) + total(work.vector, K.EXP)) == 64 * 1024


@pytest.mark.parametrize("columns", [50264, 50257])
def test_a_matmul_reads_each_operand_once(columns: int) -> None:
    """Also one whose rows no vector can read, so that a body does."""
    dot = in_kernel(B.dot(x(16, 768), x(768, columns, name="w")))
    program, work = only(H200, dot)
    assert moved_bytes(program, work) == 4 * (16 * 768 + 768 * columns + 16 * columns)


def test_a_row_that_stays_in_registers_is_read_once() -> None:
    program, work = only(H200, p.softmax(x(512, 1024)))
    assert moved_bytes(program, work) == 2 * 4 * 512 * 1024
    assert sum(work.reductions.values()) == 2
    assert work.rounds == 1, "all loads of a row are under way together"
    assert work.registers >= 32


def test_rows_one_after_the_other_wait_for_each() -> None:
    """A block of a mixed reduction takes its rows in turn: each has loads, and reductions, of its own."""
    matrices, numbers = (x(8192, 1024), x(8192, 1024, name="dy")), (x(8192, 1, name="mean"), x(8192, 1, name="rstd"))
    graph = region("mixed", p.layernorm_backward(*matrices, x(1024, name="gamma"), *numbers))
    kernel = next(k for k in compiled(graph, H200, barriers=False).kernels if k.schedule.family == MIXED.name)
    work, rows = count_work(kernel.program), kernel.schedule.mapping.rows_per_block
    assert rows > 1
    assert sum(work.reductions.values()) >= rows
    assert work.rounds >= rows


@pytest.mark.parametrize("clusters", [True, False])
def test_blocks_that_share_rows_move_what_they_touch(clusters: bool) -> None:
    """Those of a cluster, and those that a grid loop deals out."""
    device = H200 if clusters else gpu_spec(H200.profile, "80")
    [kernel] = compiled(region("softmax", [p.softmax(x(1000, 65_536))]), device).kernels
    assert (kernel.program.cluster > 1, kernel.program.looped) == (clusters, not clusters)
    outside = 2 * 4 * 1000 * 65_536
    assert outside <= moved_once(kernel.program) < 1.01 * outside


def test_what_two_phases_read_moves_once() -> None:
    per_channel = [x(64, name=name) for name in ("gamma", "beta", "mean", "variance")]
    graph = region("batchnorm", p.batchnorm_training(x(3000, 64), *per_channel)[0])
    [kernel] = compiled(graph, H200).kernels
    phases = list(kernel.program.phases())
    assert len(phases) > 1
    matrix = 4 * 3000 * 64
    assert 2 * matrix <= moved_once(kernel.program) < 2.5 * matrix
    assert sum(moved_bytes(phase, count_work(phase)) for phase in phases) >= 3 * matrix


def test_what_is_read_by_every_row_counts_once_in_memory() -> None:
    program, work = only(H200, B.mul(x(4096, 256), x(256, name="gamma")))
    assert moved_bytes(program, work) == 4 * (2 * 4096 * 256 + 256)


def test_neighbours_that_are_apart_have_a_stride() -> None:
    _, work = only(H200, B.exp(x(64, 1024)))
    assert {a.stride for a in work.accesses} == {4}, "a vector of four each"
    table, index = x(1 << 20, name="table"), B.input("i:0", DType.I32, (4096,))
    _, work = only(H200, B.op(K.GATHER, table, index))
    assert None in {a.stride for a in work.accesses}


def test_rows_that_are_looked_up_are_contiguous_inside() -> None:
    table, index = x(1000, 64, name="table"), B.input("i:0", DType.I32, (512,))
    _, work = only(CPU, B.add(B.op(K.GATHER, table, index), x(512, 64)))
    assert None not in {a.stride for a in work.accesses}


def test_rests_of_vectors_are_scalar() -> None:
    _, whole = only(CPU, B.sum(x(8, 64), [1]))
    _, rest = only(CPU, B.sum(x(8, 77), [1]))
    assert total(whole.scalar, K.SUM) == 0
    assert total(rest.scalar, K.SUM) == 5
    assert total(rest.vector, K.SUM) == 72


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
@pytest.mark.parametrize("parts", [2, 3, 8])
def test_operands_of_a_concatenation_count_by_their_share(device: DeviceSpec, parts: int) -> None:
    """Tests of halves lead to each."""
    columns = [16 * (i + 1) for i in range(parts)]
    program, work = only(device, B.concat([B.neg(x(4096, n, name=f"x{n}")) for n in columns], 1))
    elements = 4096 * sum(columns)
    assert moved_bytes(program, work) == pytest.approx(2 * 4 * elements, rel=0.01)
    threads = program.grid * program.threads
    assert threads * (total(work.scalar, K.NEG) + total(work.vector, K.NEG)) == pytest.approx(elements, rel=0.01)


def test_lines_that_a_warp_looks_up() -> None:
    """Where elements lie side by side, and where each lies in a line of its own."""
    program, work = only(H200, B.exp(x(64, 1024)))
    threads = program.grid * program.threads
    assert threads * work.lines / 32 == 2 * 4 * 64 * 1024 / 128, "each line once"
    program, work = only(H200, B.exp(B.slice(x(1 << 16, 32), (0, 0), (1, 32), (1 << 16, 1))))
    assert program.grid * program.threads * work.lines / 32 > 1 << 16
