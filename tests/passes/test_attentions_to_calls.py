"""Attentions and their gradients as operations of their own: what becomes of a graph, and that it means the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.differential.attention_steps import B, Step, causal
from tests.differential.runner import compare, random_values, reference, region
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_attentions import FusedAttention
from tf_stitch.ir.graph import Node, TensorGraph, users_of, with_operands
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import AttentionAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.text_parser import parse_graph
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.passes.attentions_to_calls import AttentionsToCalls
from tf_stitch.passes.simplify_movement import SimplifyMovement
from tf_stitch.planning.attention import find_attentions
from tf_stitch.planning.find_attention_gradients import find_trained
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.plain_attention import plain_attention, plain_training

STEP = Step(DType.BF16, batch=2, queries=24, keys=24, heads=2, size=32, score=causal())


def all_plain(graph: TensorGraph) -> list[FusedAttention]:
    nodes = graph.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    found = [*map(plain_training, find_trained(nodes, users, wanted)),
             *map(plain_attention, find_attentions(nodes, users, wanted))]
    return [fused for fused in found if fused is not None]


def changed(graph: TensorGraph) -> TensorGraph:
    result = AttentionsToCalls(all_plain).run(graph)
    assert result.modified
    verify_graph(result.graph, static=True)
    return SimplifyMovement().run(result.graph).graph


def calls(graph: TensorGraph) -> list[Node]:
    return [node for node in graph.nodes() if node.category is Category.ATTENTION]


def test_a_train_step(golden: Callable[[str, str], None]) -> None:
    before = STEP.graph()
    golden("attentions_to_calls", format_graph(before) + "\nbecomes\n\n" + format_graph(changed(before)))


def test_inference(golden: Callable[[str, str], None]) -> None:
    """No log sums: nothing reads them."""
    before = STEP.graph("o")
    golden("attention_to_call", format_graph(before) + "\nbecomes\n\n" + format_graph(changed(before)))


STEPS = pytest.mark.parametrize("step", [
    STEP, replace(STEP, score=Step.score, keys=33), replace(STEP, keys_first=True), replace(STEP, dtype=DType.F32)],
    ids=["causal", "plain", "keys first", "float32"])


@STEPS
def test_it_means_the_same(step: Step) -> None:
    graph = step.graph()
    after = changed(graph)
    assert len(calls(after)) == 5
    assert not any(node.kind in (OpKind.DOT, OpKind.EXP) for node in after.nodes())
    values = random_values(graph)
    compare(graph, interpret(after, values), *reference(graph, values), "as calls")


@STEPS
def test_it_means_the_same_without_gradients(step: Step) -> None:
    graph = step.graph("o")
    after = changed(graph)
    assert [node.kind for node in calls(after)] == [OpKind.ATTENTION]
    assert not any(node.kind in (OpKind.DOT, OpKind.EXP) for node in after.nodes())
    values = random_values(graph)
    compare(graph, interpret(after, values), *reference(graph, values), "as a call")


def test_its_text_can_be_read() -> None:
    text = format_graph(changed(STEP.graph()))
    assert format_graph(parse_graph(text)) == text


def test_heads_stay_where_layers_have_them() -> None:
    """Nothing is transposed: rows are outside of heads in what is read and in what is written."""
    for node in [*calls(changed(STEP.graph())), *calls(changed(STEP.graph("o")))]:
        assert isinstance(node.attrs, AttentionAttrs)
        assert node.attrs.rows_outside is (node.kind is not OpKind.ATTENTION_LOG_SUM)


@pytest.mark.parametrize("results", ["oqkv", "o"])
def test_results_that_others_want_by_heads_are_so(results: str) -> None:
    before = STEP.graph(results)
    turned = [B.transpose(node, (0, 2, 1, 3)) for _, node in before.outputs]
    graph = SimplifyMovement().run(region("by heads", turned)).graph
    after = changed(graph)
    assert not any(node.attrs.rows_outside for node in calls(after) if isinstance(node.attrs, AttentionAttrs))
    values = random_values(graph)
    compare(graph, interpret(after, values), *reference(graph, values), "by heads")


def test_two_attentions_of_a_graph_stay_apart() -> None:
    one, other = STEP.graph(), parse_graph(format_graph(STEP.graph()).replace("key=", "key=other "))
    graph = TensorGraph("two", [*one.outputs, *((f"other {key}", node) for key, node in other.outputs)])
    assert len(calls(changed(graph))) == 10


def test_attentions_that_follow_each_other() -> None:
    """The first is trained by what the second does not tell."""
    first = STEP.graph()
    [given] = [node for node in first.nodes() if getattr(node.attrs, "key", "") == "q"]
    second = parse_graph(format_graph(STEP.graph("o")).replace("key=", "key=other "))
    new: dict[Node, Node] = {}

    def made(node: Node) -> Node:
        if getattr(node.attrs, "key", "") == "other q":
            return B.reshape(first.outputs[0][1], given.type.shape)
        if node not in new:
            new[node] = with_operands(node, tuple(map(made, node.operands)))
        return new[node]

    graph = TensorGraph("two", [*first.outputs, ("o9", made(second.outputs[0][1]))])
    after = changed(graph)
    assert len(calls(after)) == 6
    values = random_values(graph)
    compare(graph, interpret(after, values), *reference(graph, values), "one after the other")


@pytest.mark.parametrize("results", ["oqkv", "o"])
def test_without_any_the_graph_stays(results: str) -> None:
    graph = replace(STEP, score=causal(1)).graph(results)
    result = AttentionsToCalls(all_plain).run(graph)
    assert not result.modified
    assert result.graph is graph


@pytest.mark.parametrize("order", ["vkqo", "qkvo", "kovq"])
def test_gradients_may_be_made_before_the_result(order: str) -> None:
    """In the order of nodes: nothing of the result or of values is needed for the gradient of values itself."""
    graph = STEP.graph(order)
    after = changed(graph)
    assert len(calls(after)) == 5
    values = random_values(graph)
    compare(graph, interpret(after, values), *reference(graph, values), "gradients first")
