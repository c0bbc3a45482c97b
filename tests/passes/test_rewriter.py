"""Rules on nodes, bottom up until none applies: IR text in, IR text out."""

from __future__ import annotations

import pytest

from tf_stitch.errors import VerifyError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.text_parser import parse_graph
from tf_stitch.passes.rewriter import LIMIT, rewrite

GRAPH = """graph g
  %0 = input() {key=x:0, type=float32[4]} : float32[4]
  %1 = neg(%0) : float32[4]
  %2 = exp(%1) : float32[4]
  %3 = neg(%2) : float32[4]
  out o = %3
"""


def abs_for_neg(node: Node) -> Node | None:
    return Builder(node.loc).op(OpKind.ABS, node.operands[0]) if node.kind is OpKind.NEG else None


def tanh_for_abs(node: Node) -> Node | None:
    return Builder(node.loc).op(OpKind.TANH, node.operands[0]) if node.kind is OpKind.ABS else None


def exp_of_abs_is_sin(node: Node) -> Node | None:
    """Applies only after the operand was rewritten."""
    if node.kind is OpKind.EXP and node.operands[0].kind is OpKind.ABS:
        return Builder(node.loc).op(OpKind.SIN, node.operands[0])
    return None


def test_a_graph_to_which_no_rule_applies_is_as_it_was() -> None:
    result = rewrite(parse_graph(GRAPH), (tanh_for_abs,))
    assert not result.modified
    assert format_graph(result.graph) == GRAPH


def test_every_node_a_rule_applies_to_is_replaced() -> None:
    result = rewrite(parse_graph(GRAPH), (abs_for_neg,))
    assert result.modified
    assert format_graph(result.graph) == GRAPH.replace("neg", "abs")


def test_rules_apply_to_what_rules_gave() -> None:
    assert format_graph(rewrite(parse_graph(GRAPH), (tanh_for_abs, abs_for_neg)).graph) == GRAPH.replace("neg", "tanh")


def test_operands_are_rewritten_before_their_users() -> None:
    result = rewrite(parse_graph(GRAPH), (exp_of_abs_is_sin, abs_for_neg))
    assert format_graph(result.graph) == GRAPH.replace("neg", "abs").replace("exp", "sin")


def test_of_two_rules_the_first_one_applies() -> None:
    def sin_for_neg(node: Node) -> Node | None:
        return Builder(node.loc).op(OpKind.SIN, node.operands[0]) if node.kind is OpKind.NEG else None

    assert format_graph(rewrite(parse_graph(GRAPH), (sin_for_neg, abs_for_neg)).graph) == GRAPH.replace("neg", "sin")


def test_a_rule_may_not_change_the_type() -> None:
    def shorter(node: Node) -> Node | None:
        return Builder(node.loc).cast(node, DType.F64) if node.kind is OpKind.EXP else None

    with pytest.raises(VerifyError, match=r"turned float32\[4\] into float64\[4\]"):
        rewrite(parse_graph(GRAPH), (shorter,))


def test_rules_that_never_come_to_rest_are_an_error() -> None:
    calls = 0

    def there_and_back(node: Node) -> Node | None:
        nonlocal calls
        calls += 1
        other = {OpKind.NEG: OpKind.ABS, OpKind.ABS: OpKind.NEG}.get(node.kind)
        return None if other is None else Builder(node.loc).op(other, node.operands[0])

    with pytest.raises(VerifyError, match="do not come to rest"):
        rewrite(parse_graph(GRAPH), (there_and_back,))
    assert calls >= LIMIT


def test_keys_and_order_of_outputs_stay() -> None:
    text = GRAPH.replace("  out o = %3\n", "  out last = %3\n  out first = %1\n")
    result = rewrite(parse_graph(text), (abs_for_neg,)).graph
    assert [key for key, _ in result.outputs] == ["last", "first"]
    assert format_graph(result) == text.replace("neg", "abs")
