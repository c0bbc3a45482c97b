"""The passes from a fusion plan to placed kernels: which run where, and that storage is decided once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import keys_of, region
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import planned_kernels
from tf_stitch.compiler.plan_passes import plan_passes
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.pass_manager import Instrument
from tf_stitch.placement.executable_format import Space
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.schedule.reuse import Reuse

ALL = ["private_values", "make_kernels", "cooperative_fusion", "tuned_templates", "reverse_block_order",
       "bounded_sums", "decide_storage", "row_updates", "place_values"]
OF_GPUS = {"private_values", "cooperative_fusion", "reverse_block_order", "row_updates"}


def names(options: CompileOptions) -> list[str]:
    return [one.name for one in plan_passes(PatternCompiler(options.device, True), options, 0)]


@pytest.mark.parametrize(("options", "left_out"), [
    (CompileOptions(H200), set()),
    (CompileOptions(CPU), OF_GPUS),
    (CompileOptions(H200, patterns=3), {"private_values", "row_updates"}),
    (CompileOptions(H200, reuse=Reuse.MAPPING), {"private_values", "cooperative_fusion"}),
    (CompileOptions(H200, plans=PlanMemory()), {*OF_GPUS, "tuned_templates"} - {"private_values"}),
    (CompileOptions(replace(H200, grid_barrier=False)), {"cooperative_fusion"}),
])
def test_which_passes_run(options: CompileOptions, left_out: set[str]) -> None:
    assert names(options) == [name for name in ALL if name not in left_out]


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda device: device.target)
def test_what_each_pass_leaves_can_be_looked_at(device: DeviceSpec) -> None:
    x = p.B.input("x:0", DType.F32, (64, 1000))
    graph = region("g", [p.B.exp(p.softmax(x))])
    seen: list[tuple[str, KernelPlan]] = []
    instrument = Instrument[KernelPlan](after=(lambda name, kernels: seen.append((name, kernels)),))
    kernels = planned_kernels(graph, *keys_of(graph), CompileOptions(device), plan_instrument=instrument)
    after = dict(seen)
    assert set(instrument.seconds) == set(names(CompileOptions(device)))
    assert after["make_kernels"].storage is None
    assert len(after["make_kernels"].work) == len(kernels.plan.patterns)
    arena = {node for node, place in kernels.buffers.place.items() if place.space is Space.ARENA}
    assert arena.isdisjoint(after["decide_storage"].buffers.place), "nothing is placed in the arena before"
    assert after["place_values"] is kernels
