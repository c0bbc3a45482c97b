"""Plans of unrolled loops: each step has the kernels that it needs, however many steps there are."""

from __future__ import annotations

import pytest

from tests.differential.runner import keys_of, region
from tf_stitch.compiler.pipeline import CompiledRegion, CompileOptions, compile_region
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.planning.planner import PlanOptions

B, F32 = Builder(), DType.F32


def lstm(steps: int, rows: int, units: int) -> TensorGraph:
    """Outputs of all steps of a layer."""
    x = B.input("x:0", F32, (steps, rows, units))
    kernel, recurrent = (B.variable(name, F32, (units, 4 * units)) for name in ("kernel", "recurrent"))
    h, c = (B.input(f"{name}:0", F32, (rows, units)) for name in "hc")
    outputs: list[Node] = []
    for t in range(steps):
        now = B.reshape(B.slice(x, (t, 0, 0), (1, 1, 1), (1, rows, units)), (rows, units))
        z = B.add(B.dot(now, kernel), B.dot(h, recurrent))
        i, f, g, o = (B.slice(z, (0, n * units), (1, 1), (rows, units)) for n in range(4))
        c = B.add(B.mul(B.op(K.SIGMOID, f), c), B.mul(B.op(K.SIGMOID, i), B.op(K.TANH, g)))
        h = B.mul(B.op(K.SIGMOID, o), B.op(K.TANH, c))
        outputs.append(h)
    return region("lstm", [B.concat(outputs, 0)])


def planned(steps: int, rows: int, units: int, **options: int) -> CompiledRegion:
    graph = lstm(steps, rows, units)
    return compile_region(graph, *keys_of(graph), CompileOptions(H200, PlanOptions(**options)))


def planned_with_care(made: CompiledRegion) -> bool:
    assert made.plan.solver is not None
    return made.plan.solver.exact


@pytest.mark.parametrize("rows", [1, 16])
def test_a_step_is_a_matmul_and_a_kernel(rows: int) -> None:
    """Matmuls of one row are sums, and all of them wait for each other: windows of one part of the plan."""
    steps = 24
    made = planned(steps, rows, 64)
    assert len(made.kernels) + len(made.calls) <= 2 * steps + 4
    assert planned_with_care(made)


def test_a_region_of_many_equal_parts_is_planned_with_care() -> None:
    """Of 24 steps, which are planned once."""
    assert planned_with_care(planned(24, 64, 256, careful=100))
    assert not planned_with_care(planned(24, 64, 256, careful=10))
