"""The compositions of FusionStitching's Figure 5, and the one that AStitch adds."""

from __future__ import annotations

import pytest

from tests.compiler.test_template_kernels import kernel
from tests.differential import patterns as p
from tests.differential.runner import compiled, region
from tests.planning.paper_graphs import figure_7a
from tests.support.whole_patterns import x
from tf_stitch.device.spec import H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.schedule.composition import Composition, compositions

B = p.B


A, C = B.input("a:0", DType.F32, (64, 64)), B.input("c:0", DType.F32, (64, 64))
ROWS, LONG = B.input("rows:0", DType.F32, (256, 16, 64)), x(64, 15_000)
SUM = B.broadcast(B.sum(ROWS, [2], True), (256, 16, 64))


@pytest.mark.parametrize(("outputs", "expected"), [
    ([B.exp(A)], []), ([B.exp(A), B.neg(C)], ["packing"]), ([B.mul(B.exp(A), C)], ["thread"]),
    ([B.mul(SUM, ROWS)], ["thread", "warp"]), ([B.sub(LONG, B.mean(LONG, [1], True))], ["thread", "block"]),
    ([p.softmax(x(4, 500_000))], ["thread", "block", "grid"])],
    ids=["one op", "packing", "thread", "warp", "block", "grid"])
def test_compositions(outputs: list[Node], expected: list[str]) -> None:
    found = compositions(kernel(region("g", outputs), H200).schedule)
    assert [one.value for one in found] == expected


def test_cooperative_kernels_are_composed_by_grid() -> None:
    (one,) = compiled(figure_7a(), H200).kernels
    assert one.schedule.groups
    assert Composition.GRID in compositions(one.schedule)
