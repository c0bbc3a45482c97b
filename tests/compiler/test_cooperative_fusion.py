"""The example that AStitch explains its method with (Figs. 7 and 9), as one kernel for an H200."""

from __future__ import annotations

from tests.differential.runner import compare, compiled, random_values, reference, run_kernel_ir
from tests.planning.paper_graphs import figure_7a
from tf_stitch.device.spec import H200
from tf_stitch.schedule.kernel_schedule import COOPERATIVE, Scheme


def test_groups_and_schemes() -> None:
    """Sections 4.3: reduce.1 and reduce.2 are dominants, power.1 follows reduce.1, its block alone needs what reduce.1
    gives, and the others' values go to all blocks. Of reduce.2, which is a sum down columns, parts are summed first;
    multiply.1 waits for all of it, so that it is a loop of its own."""
    result = compiled(figure_7a(rows=1024, cols=2048), H200)
    (kernel,), (step,) = result.kernels, result.executable.steps
    assert kernel.schedule.family == COOPERATIVE
    assert step.cooperative  # type: ignore[union-attr]
    groups = [[{n.loc.node for n in group.pattern.nodes} for group in together] for together in kernel.schedule.groups]
    assert groups[0] == [{"add.1", "reduce.1", "divide.1", "power.1", "broadcast.2"}]
    assert groups[-1] == [{"broadcast.2", "add.3", "multiply.1"}]
    assert all("reduce.2" in names for together in groups[1:-1] for names in together)
    dominants = [group.dominant.loc.node for together in kernel.schedule.groups for group in together]
    assert [d for d in dominants if d.startswith("reduce")] == ["reduce.1", *["reduce.2"] * (len(groups) - 2)]
    schemes = {node.loc.node: scheme for node, scheme in kernel.schedule.schemes.items()}
    assert schemes["reduce.1"] is Scheme.REGIONAL
    assert schemes["power.1"] is schemes["reduce.2"] is Scheme.GLOBAL
    assert {schemes[name] for name in ("add.1", "divide.1", "add.2", "add.3")} == {Scheme.LOCAL}


def test_it_computes_what_the_graph_says() -> None:
    graph = figure_7a(rows=64, cols=128, length=64)
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, compiled(graph, H200), values), want, allowed, "H200 kernel IR")
