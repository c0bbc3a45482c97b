"""Plans for other sizes are those that passes and planner make, and so is all that is made of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.compiler.test_shape_variants import NAMES, layer, shapes
from tests.differential import patterns as p
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_plan, compile_region
from tf_stitch.compiler.symbolic_plans import Decisions, SizedPlans
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.dynamic_dims import atom_values, bind_changing
from tf_stitch.ir.graph import TensorGraph, key_of
from tf_stitch.ir.types import Symbol
from tf_stitch.planning.plan_memory import PlanMemory

WIDTH = 64


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
def test_regions_are_those_compiled_for_other_sizes(device: DeviceSpec) -> None:
    graph, multiple, plans = layer(), 4 if device.simt else 1, SizedPlans()
    inputs = tuple(key_of(n) for n in graph.inputs())
    options = CompileOptions(device, plans=PlanMemory())

    def bound(sizes: Mapping[str, int], multiple: int) -> TensorGraph:
        return bind_changing(graph, shapes(graph, sizes), NAMES, multiple)

    decisions = Decisions(bound({"b": 8, "n": 24}, 1), options, multiple)
    known = 0
    for n, b in [(n, b) for b in (8, 7) for n in (24, 28, 1, 32, 36, 7, 9, 11, 500, 504, 508, 33, 35, 37, 3000, 3001)]:
        sizes = {"b": b, "n": n}
        compiled = compile_region(bound(sizes, multiple), inputs, (), options)
        plan = plans.plan(decisions.at(sizes), atom_values(sizes, multiple))
        if plan is not None:
            known += 1
            assert _made(compile_plan(plan, inputs, (), options)) == _made(compiled), sizes
        plans.keep(decisions.at(sizes), sizes, compiled.plan)
    assert known >= 5


def _made(compiled: CompiledRegion) -> tuple[object, ...]:
    executable = compiled.executable
    return (executable.steps, executable.outputs, executable.state, executable.arena_bytes, executable.after,
            executable.live_bytes, compiled.source, {s: kernel.sizes for s, kernel in compiled.rendered.items()})


def test_two_sizes_have_to_agree() -> None:
    x = p.B.input("x", DType.F32, (Symbol("n"), WIDTH))
    graph = TensorGraph("rows", [("o", p.B.exp(x))])
    options, plans = CompileOptions(H200, plans=PlanMemory()), SizedPlans()

    def keep(graph: TensorGraph, size: int) -> None:
        compiled = compile_region(bind_changing(graph, {"x": (size, WIDTH)}, ["n"]), ("x",), (), options)
        plans.keep("alike", {"n": size}, compiled.plan)

    keep(graph, 8)
    keep(graph, 8)
    assert plans.plan("alike", {"n": 9}) is None, "one size"
    keep(graph, 12)
    plan = plans.plan("alike", {"n": 9})
    assert plan is not None
    assert int(plan.graph.nodes()[-1].type.dims[0]) == 9
    assert plans.plan("other", {"n": 9}) is None
    assert plans.plan("alike", {"n": 0}) is None, "no elements"
    keep(TensorGraph("rows", [("o", p.B.neg(x))]), 16)
    assert plans.plan("alike", {"n": 9}) is None, "sizes decide what is computed"
