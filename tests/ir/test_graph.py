"""Graphs: order, text, verifier, rebuild, structural keys."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from tests.differential.generator import make_case
from tests.differential.runner import region
from tf_stitch.errors import SourceLoc, TypeRuleError, VerifyError
from tf_stitch.ir import graph as ir_graph
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, make_node, users_of, with_operands
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import AssignAttrs, Attrs, AxisAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_format import format_graph, structural_key
from tf_stitch.ir.types import TensorType
from tf_stitch.ir.verifier import verify_graph

B, F32 = Builder(SourceLoc("layer/op", "Mul")), DType.F32


@pytest.mark.parametrize("seed", range(20))
def test_operands_come_first_and_the_order_is_stable(seed: int) -> None:
    graph = make_case(random.Random(seed), 14, 100).graph
    nodes = graph.nodes()
    position = {n: i for i, n in enumerate(nodes)}
    assert len(position) == len(nodes)
    assert all(position[o] < position[n] for n in nodes for o in n.operands)
    assert graph.nodes() == nodes
    users = users_of(nodes)
    assert all(n in users[o] for n in nodes for o in n.operands)


def test_deep_graphs_need_no_recursion() -> None:
    node = B.input("x:0", F32, (2,))
    for _ in range(5000):
        node = B.neg(node)
    graph = region("deep", [node])
    assert len(graph.nodes()) == 5001
    verify_graph(graph)


def test_text() -> None:
    x = B.input("x:0", F32, (2, 3))
    graph = region("g", [B.sum(x, [1])], {"v": B.mul(x, B.scalar_like(2, x))})
    assert format_graph(graph).rstrip() + "\n" == """graph g
  %0 = input() {key=x:0, type=float32[2,3]} : float32[2,3]  // layer/op (Mul)
  %1 = sum(%0) {axes=[1]} : float32[2]  // layer/op (Mul)
  %2 = constant() {value=2.0} : float32[]  // layer/op (Mul)
  %3 = mul(%0, %2) : float32[2,3]  // layer/op (Mul)
  %4 = assign(%3) {handle=v} : float32[2,3]
  out o0 = %1
  out v = %4
"""


def test_long_constants_are_told_apart_by_digest() -> None:
    a, b = np.arange(100.0), np.arange(100.0)
    b[99] = 0
    texts = {format_graph(region("g", [B.constant(v, F32)])) for v in (a, b, a.copy())}
    assert len(texts) == 2


def test_structural_keys() -> None:
    def key(build: object) -> str:
        x, y = B.input("x:0", F32, (4,)), B.input("y:0", F32, (4,))
        nodes = [n for n in region("g", [build(x, y)]).nodes() if n.operands]  # type: ignore[operator]
        return structural_key(nodes, nodes[-1:])

    same = key(lambda x, y: B.add(B.exp(x), y))
    assert key(lambda x, y: Builder().add(Builder().exp(y), x)) == same, "names do not matter"
    others = [lambda x, y: B.add(B.exp(x), x), lambda x, y: B.add(y, B.exp(x)), lambda x, y: B.sub(B.exp(x), y),
              lambda x, y: B.add(B.neg(x), y)]
    assert same not in map(key, others[:1] + others[2:])


def broken(node: Node, dtype: DType) -> Node:
    return Node(node.kind, node.operands, node.attrs, TensorType(dtype, node.type.shape))


@pytest.mark.parametrize(("graph", "message"), [
    (lambda x: region("g", [broken(B.exp(x), DType.F64)]), "its rule gives float32"),
    (lambda x: region("g", [B.add(x, B.input("x:0", F32, (4,)))]), "two nodes stand for x:0"),
    (lambda x: TensorGraph("g", [("a", x), ("a", B.exp(x))]), "two outputs have one key"),
    (lambda x: region("g", [B.neg(make_node(OpKind.ASSIGN, [x], AssignAttrs("v")))]), "uses an assign as a value"),
    (lambda x: region("g", [Node(OpKind.ADD, (x,), Attrs(), x.type)]), "takes 2 operands"),
])
def test_the_verifier_finds(graph: object, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify_graph(graph(B.input("x:0", F32, (4,))))  # type: ignore[operator]


def test_half_types_round_when_stored() -> None:
    x = B.input("x:0", DType.BF16, (1,))
    graph = region("g", [B.add(x, B.scalar_like(1, x))])
    got = interpret(graph, {"x:0": np.array([2.0 ** -9], DType.BF16.numpy)})["o0"]
    assert float(got[0]) == 1.0


def test_the_order_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes ask for it again and again; nodes do not change, outputs may."""
    graph = make_case(random.Random(3), 14, 100).graph
    first = graph.nodes()
    first.pop()  # the caller's own
    found: list[object] = []
    in_order = ir_graph._in_order

    def counted(roots: Sequence[Node]) -> tuple[Node, ...]:
        found.append(roots)
        return in_order(roots)

    monkeypatch.setattr(ir_graph, "_in_order", counted)
    assert graph.nodes() == graph.nodes() == [*in_order([node for _, node in graph.outputs])]
    assert not found
    graph.outputs.append(("more", make_node(OpKind.CONCAT, [graph.outputs[0][1]], AxisAttrs(0))))
    assert graph.nodes()[-1] is graph.outputs[-1][1]
    assert len(found) == 1


def test_types_are_inferred_where_operands_have_other_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that changes one node makes all behind it anew: their types are known."""
    x, y = B.input("x:0", F32, (4, 8)), B.input("y:0", F32, (4, 8))
    wide = B.input("wide:0", F32, (3, 4, 8))
    node = B.add(x, B.constant(1.0, F32))
    inferred: list[OpKind] = []
    rule = ir_graph.make_node

    def counted(kind: OpKind, operands: Iterable[Node], attrs: Attrs, loc: SourceLoc) -> Node:
        inferred.append(kind)
        return rule(kind, operands, attrs, loc)

    monkeypatch.setattr(ir_graph, "make_node", counted)
    assert with_operands(node, node.operands) is node
    operands = y, node.operands[1]
    again = with_operands(node, operands)
    assert (again.kind, again.operands, again.type, again.loc) == (node.kind, operands, node.type, node.loc)
    assert not inferred
    assert with_operands(node, (wide, node.operands[1])).type.dims == (3, 4, 8)
    assert inferred == [OpKind.ADD]
    with pytest.raises(TypeRuleError):
        with_operands(node, (x,))
