"""What no step of a region writes is read before the kernels that a launch depends on have ended."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, region, run_kernel_ir
from tests.emit.ptx import ptx_of_source
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.device.spec import H200, DeviceSpec, gpu_spec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir.dependencies import awaits_itself, read_before
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.walk import arrays
from tf_stitch.placement.executable import DeviceLaunch
from tf_stitch.placement.executable_format import Space

B, F32 = p.B, DType.F32
WITHOUT_BARRIERS = replace(H200, grid_barrier=False)


def chain(assigned: bool = False) -> TensorGraph:
    """Two matmuls of one row, by variables; the first is perhaps updated."""
    w1, w2 = B.variable("w1", F32, (256, 128)), B.variable("w2", F32, (128, 256))
    y = B.dot(B.exp(B.dot(B.input("x:0", F32, (1, 256)), w1)), w2)
    change = B.broadcast(B.reshape(y, (256, 1)), w1.type.dims)
    return region("chain", [y], {"w1": B.add(w1, change)} if assigned else {})


def early_spaces(graph: TensorGraph, device: DeviceSpec) -> set[tuple[Space, int]]:
    """The memory that launches read before; results are compared."""
    values, found = random_values(graph), compiled(graph, device)
    compare(graph, run_kernel_ir(graph, found, values), *reference(graph, values), "kernel IR")
    early = set()
    for step in found.executable.steps:
        assert isinstance(step, DeviceLaunch)
        args = list(step.args)
        for program in found.programs[step.symbol]:
            names = read_before(program)
            refs = [(b.name, args.pop(0)) for b in program.parameters]
            early |= {(ref.space, ref.index) for name, ref in refs if name in names}
    return early


def test_weights_are_read_before() -> None:
    assert early_spaces(chain(), WITHOUT_BARRIERS) >= {(Space.VARIABLE, 0), (Space.VARIABLE, 1)}


def test_a_variable_that_the_region_assigns_is_not() -> None:
    assert early_spaces(chain(assigned=True), WITHOUT_BARRIERS) & {
        (Space.VARIABLE, 0), (Space.VARIABLE, 1)} == {(Space.VARIABLE, 1)}  # fmt: skip


def test_older_devices_read_all_of_it_after() -> None:
    older = replace(gpu_spec(H200.profile, "80"), grid_barrier=False)
    assert not early_spaces(chain(), older)


def programs(graph: TensorGraph) -> list[Program]:
    return [program for members in compiled(graph, WITHOUT_BARRIERS).programs.values() for program in members]


def test_a_launch_of_more_blocks_than_fit_at_once_reads_nothing_before() -> None:
    w = B.variable("w", F32, (64, 1 << 19))
    wide, = programs(region("wide", [B.dot(B.input("x:0", F32, (1, 64)), w)]))
    assert wide.grid > H200.processors
    assert not awaits_itself(wide)


def test_kernels_side_by_side_share_the_registers() -> None:
    """Three matmuls of one launch have more blocks than there are processors: each holds less, and all are there."""
    def held(count: int) -> int:
        outs = [B.dot(B.input(f"x{i}:0", F32, (1, 1344)), B.variable(f"w{i}", F32, (1344, 768)))
                for i in range(count)]
        built = compiled(region("side", outs), WITHOUT_BARRIERS)
        step, = built.executable.steps
        assert step.grid == 48 * count
        return max(array.nbytes // 4 for members in built.programs.values() for program in members
                   for array in arrays(program.body) if array.name.endswith("_ahead"))

    assert held(1) == 84
    assert held(3) <= H200.registers // (2 * 256) - 56


def test_compilers_leave_the_loads_before_the_wait() -> None:
    code = ptx_of_source(compiled(chain(), WITHOUT_BARRIERS).source)
    early = 0
    for kernel in code.split(".entry ")[1:]:
        before, after = kernel.split("griddepcontrol.wait;")
        assert "griddepcontrol.launch_dependents;" in before
        assert not re.search(r"\b(st|atom|red|cp)\.(?!param)", before)
        assert "ld.global.nc" not in after
        early += len(re.findall(r"ld\.global\.v4", before)) >= 2
    assert early == 2


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16, DType.F8_E5M2])
def test_what_is_packed_comes_back(dtype: DType) -> None:
    """The emitted kernel itself: two halves, or four float8, of a register."""
    w, x = B.variable("w", dtype, (256, 128)), B.input("x:0", F32, (1, 256))
    graph = region("packed", [B.dot(x, B.cast(w, F32))])
    found, values = compiled(graph, WITHOUT_BARRIERS), random_values(graph)
    assert "tfs_unpacked<" in found.source
    got = run_on_cpu(graph, found, values, Adversary(Order.SHUFFLED))
    compare(graph, got, *reference(graph, values), "emitted")


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16, DType.F64, DType.I32, DType.BOOL])
def test_types_of_every_size(dtype: DType) -> None:
    w, x = B.variable("w", dtype, (256, 128)), B.input("x:0", F32, (1, 256))
    scaled = region("scaled", [B.dot(x, B.cast(w, F32))])
    found, values = compiled(scaled, WITHOUT_BARRIERS), random_values(scaled)
    assert any(read_before(program) for members in found.programs.values() for program in members)
    compare(scaled, run_kernel_ir(scaled, found, values), *reference(scaled, values), "kernel IR")
    assert "griddepcontrol.wait" in ptx_of_source(found.source)
