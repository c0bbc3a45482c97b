"""Small matmuls as element-wise ops, along with what uses them."""

from __future__ import annotations

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.passes.inline_small_matmuls import Expanded, inline_small_matmuls

B, F32 = Builder(), DType.F32


def test_what_takes_the_place_of_nodes() -> None:
    x, y = B.input("x", F32, (8, 4)), B.input("y", F32, (4, 8))
    before = B.exp(x)
    dot = B.dot(before, y)
    after = B.neg(dot)
    nodes = [before, dot, after]
    expanded: Expanded = {}
    new = inline_small_matmuls(nodes, expanded)
    assert new[before] == (before,), "nothing changed"
    assert [n.kind for n in new[after]] == [OpKind.NEG]
    assert new[after][-1].operands == (new[dot][-1],)
    assert all(made.kind is not OpKind.DOT for n in nodes for made in new[n])
    known = {x, y}
    for node in nodes:
        for made in new[node]:
            assert known.issuperset(made.operands), "operands first"
            assert made not in known, "each once"
            known.add(made)
    assert inline_small_matmuls(nodes, expanded) == new, "sets of nodes share what they become"
