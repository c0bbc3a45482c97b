"""How values get from node to node in a kernel (AStitch, Table 1), edge by edge."""

from __future__ import annotations

import pytest

from tests.compiler.test_template_kernels import kernel
from tests.differential import patterns as p
from tests.differential.runner import compiled, region
from tests.planning.paper_graphs import figure_7a
from tests.support.whole_patterns import x
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.lowering.rebind import rebind, structure
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Scheme
from tf_stitch.schedule.schemes import edges_of, independent_parts

B = p.B


def by_name(schedule: KernelSchedule) -> dict[tuple[str, str], tuple[Scheme, str]]:
    return {(e.value.loc.node, e.user.loc.node): (e.scheme, e.why) for e in edges_of(schedule)}


def test_an_edge_has_the_scheme_of_its_user_not_the_farthest() -> None:
    """Fig. 7(a): all that leaves a group goes through device memory (power.1 as broadcast.2, which is the same in
    memory), what stays in it does not."""
    (fused,) = compiled(figure_7a(rows=1024, cols=2048), H200).kernels
    edges = by_name(fused.schedule)
    assert edges["add.1", "reduce.1"][0] is edges["divide.1", "power.1"][0] is Scheme.LOCAL
    assert edges["reduce.1", "divide.1"] == (Scheme.REGIONAL, "its threads combine it in memory of the block")
    leaving = {pair: why for pair, (scheme, why) in edges.items() if scheme is Scheme.GLOBAL}
    assert {producer for producer, _ in leaving} == {"broadcast.2", "reduce.2"}
    assert set(leaving.values()) == {"blocks of another group need it, behind a grid barrier"}
    assert {e.value for e in edges_of(fused.schedule)} <= set(fused.schedule.schemes)


@pytest.mark.parametrize(("device", "cols", "scheme", "why"), [
    (H200, 256, Scheme.LOCAL, "staged in registers until a later pass over the row"),
    (CPU, 256, Scheme.REGIONAL, "staged in memory of the block until a later pass over the row")])  # fmt: skip
def test_what_is_staged_says_where(device: DeviceSpec, cols: int, scheme: Scheme, why: str) -> None:
    schedule = kernel(region("g", [p.softmax(x(512, cols))]), device).schedule
    staged = [e for e in edges_of(schedule) if e.value in {s.node for s in schedule.staged}]
    assert staged
    assert {(e.scheme, e.why) for e in staged} == {(scheme, why)}


def test_every_edge_is_there_once_and_follows_a_kernel_to_its_equals() -> None:
    one, other = (region("g", [p.softmax(B.input(f"{name}:0", DType.F32, (64, 128)))]) for name in ("a", "b"))
    first, second = (kernel(graph, H200) for graph in (one, other))
    pattern = first.schedule.pattern
    pairs = [(e.value, e.user) for e in edges_of(first.schedule)]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == {(v, n) for n in pattern.nodes for v in n.operands if pattern.holds(v)}
    moved = rebind(first, structure(pattern)[1], structure(second.schedule.pattern)[1], second.schedule.pattern)
    assert list(edges_of(moved.schedule)) == list(edges_of(second.schedule))


def test_packed_ops_are_independent() -> None:
    a, c = B.input("a:0", DType.F32, (64, 64)), B.input("c:0", DType.F32, (64, 64))
    packed = kernel(region("g", [B.exp(B.neg(a)), B.neg(c)]), H200).schedule
    assert [[n.kind.value for n in part] for part in independent_parts(packed.pattern)] == [["neg", "exp"], ["neg"]]
    assert [(e.value.kind.value, e.user.kind.value) for e in edges_of(packed)] == [("neg", "exp")]
    assert len(independent_parts(kernel(region("g", [p.softmax(a)]), H200).schedule.pattern)) == 1
