"""How often a kernel computes what it reads from several places, and that plans do not hide a scan's work."""

from __future__ import annotations

import pytest

from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import passes
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.pass_manager import run_passes
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.planner import plan_region
from tf_stitch.planning.repeated_work import repetitions

B, F32 = Builder(), DType.F32


def later(x: Node, steps: int) -> Node:
    """`x` [n, m] moved down by `steps` rows, zeros above."""
    rows, columns = (int(d) for d in x.type.dims)
    zero = B.constant(0.0, F32)
    return B.slice(B.pad(x, zero, (steps, 0), (0, 0)), (0, 0), (1, 1), (rows, columns))


def pattern(*nodes: Node) -> Pattern:
    """Whose result is the last one."""
    return Pattern(nodes, nodes[-1:], frozenset())


def chain(levels: int) -> list[Node]:
    """Sums of a value and itself moved by 1, 2, 4: each reads the one before from two places."""
    nodes = [B.op(K.EXP, B.input("x:0", F32, (64, 8)))]
    for level in range(levels):
        moved = later(nodes[-1], 1 << level)
        nodes += [moved.operands[0], moved, B.add(nodes[-1], moved)]
    return nodes


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_places_multiply_along_a_chain(levels: int) -> None:
    nodes = chain(levels)
    found = repetitions(pattern(*nodes))
    assert found[nodes[0]] == 2**levels
    assert found[nodes[0].operands[0]] == 2**levels, "memory, too, is read from as many places"


def test_a_stored_value_is_computed_from_two_places_all_the_same() -> None:
    nodes = chain(2)
    found = repetitions(Pattern(tuple(nodes), (nodes[3], nodes[-1]), frozenset()))
    assert found[nodes[0]] == 4


def test_disjoint_slices_repeat_nothing() -> None:
    x = B.op(K.EXP, B.input("x:0", F32, (64, 8)))
    parts = [B.slice(x, (16 * i, 0), (1, 1), (16, 8)) for i in range(4)]
    total = B.add(B.add(parts[0], parts[1]), B.add(parts[2], parts[3]))
    assert repetitions(pattern(x, *parts, *total.operands, total)) == {}


def test_without_movement_nothing_is_counted() -> None:
    x = B.op(K.EXP, B.input("x:0", F32, (64, 8)))
    assert repetitions(pattern(x, B.add(x, x))) == {}


def scan(rows: int, columns: int) -> TensorGraph:
    """h[t] = a[t] h[t-1] + b[t] by doubling, with all steps kept, as gradients want them."""
    a, b = (B.op(K.TANH, B.input(f"{name}:0", F32, (rows, columns))) for name in "ab")
    kept = []
    steps = 1
    while steps < rows:
        b = B.add(b, B.mul(a, later(b, steps)))
        a = B.mul(a, later(a, steps))
        kept += [a, b]
        steps *= 2
    return TensorGraph("scan", tuple((f"y{i}:0", node) for i, node in enumerate(kept)))


def test_a_scan_is_cut_where_its_work_would_repeat() -> None:
    graph = run_passes(scan(512, 8192), passes(H200), None)
    times = PatternCompiler(H200, True)
    plan = plan_region(graph, times, LIBRARIES)
    predicted = sum(times.exact(p) or float("inf") for p in plan.patterns)
    written = sum(node.type.nbytes for _, node in graph.outputs)
    floor = written / H200.profile.bandwidth[-1][1] * 1e-3
    assert predicted < 3 * floor, "each step reads two values and writes two, a few of them in one kernel"
