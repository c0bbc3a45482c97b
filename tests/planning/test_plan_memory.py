"""Plans of other sizes serve graphs of equal structure."""

from __future__ import annotations

from tests.differential import patterns as p
from tests.differential.runner import region
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import passes
from tf_stitch.device.spec import H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.pass_manager import run_passes
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.planning.planner import PlanOptions, plan_region
from tf_stitch.planning.stitch_plan import StitchPlan

B = p.B


def sums(length: int, device: DeviceSpec = H200) -> TensorGraph:
    """The sum of squares of everything: in as many parts as its length calls for."""
    x = B.input("x", DType.F32, (4, length, 64))
    graph = region("sums", [B.sum(B.mul(x, x), [0, 1, 2]), p.softmax(x)])
    return run_passes(graph, passes(device))


def planned(graph: TensorGraph) -> StitchPlan:
    return plan_region(graph, PatternCompiler(H200, aligned=True), LIBRARIES, PlanOptions("greedy"))


def test_a_plan_serves_other_parts_of_a_split_sum() -> None:
    memory = PlanMemory()
    plan = planned(sums(size("n", 33)))
    memory.keep(plan)
    for length in (size("n", 100), size("n", 1023), 4 * size("n/4", 128)):
        graph = sums(length)
        assert anonymous_text(graph) != anonymous_text(plan.graph)
        found = memory.recall(graph)
        assert found is not None
        assert found.graph is graph
        assert [[n.kind for n in q.nodes] for q in found.patterns] == [[n.kind for n in q.nodes] for q in plan.patterns]


def test_another_structure_has_no_plan_yet() -> None:
    memory = PlanMemory()
    memory.keep(planned(sums(size("n", 33))))
    assert memory.recall(sums(size("n", 1))) is None, "a sum so short is not split"
    half = B.cast(B.input("x", DType.F16, (4, size("n", 33), 64)), DType.F32)
    assert memory.recall(run_passes(region("sums", [B.sum(B.mul(half, half), [0, 1, 2])]), passes(H200))) is None


def weighted(length: int) -> TensorGraph:
    """Rows times weights, which one element would be computed wherever it is needed."""
    weights = B.exp(B.input("w", DType.F32, (length,)))
    return region("weighted", [B.mul(B.input("x", DType.F32, (size("b", 64), length)), weights)])


def test_a_plan_for_one_element_does_not_serve_many() -> None:
    memory, many = PlanMemory(), weighted(size("n", 1))
    memory.keep(planned(weighted(1)))
    assert memory.recall(many) is None
    memory.keep(planned(many))
    assert memory.recall(weighted(size("n", 2))) is not None
    assert memory.recall(weighted(1)) is None
