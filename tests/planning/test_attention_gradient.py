"""What of a train step is an attention, and what its gradients become. The graphs of layers are those of one training
step of a Keras or keras_hub layer with batch 2, length 64 (17 of the image) and two or four heads of 32."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential.attention_steps import B, Step, all_copies, masked, padding, scaled
from tests.differential.runner import check_all, compiled, region
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.device.spec import CPU, H200
from tf_stitch.families.attention import ATTENTION
from tf_stitch.families.attention_gradient import ATTENTION_GRADIENT
from tf_stitch.ir.copies import with_copies
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph, users_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_parser import parse_graph
from tf_stitch.passes import private_copies
from tf_stitch.passes.private_copies import PrivateCopies
from tf_stitch.planning import attention_choice
from tf_stitch.planning.attention_choice import attention_copies, copies_for
from tf_stitch.planning.find_attention_gradients import find_gradients, find_trained
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.limited_patterns import limit_patterns
from tf_stitch.planning.plan_groups import groups_of, plan_of

GRAPHS = sorted((Path(__file__).parent / "graphs" / "attention").glob("*.txt.gz"))
F32, BF16 = DType.F32, DType.BF16
SMALL = Step(batch=1, queries=20, keys=24, heads=2, size=24)
LARGE = Step(BF16, batch=16, queries=256, keys=256, heads=12, size=64, score=masked)
"""As in GPT-2."""


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients compute scores anew whether that pays or not."""
    monkeypatch.setattr(private_copies, "attention_copies", all_copies)


SLOW_LIBRARY = replace(H200, profile=replace(H200.profile, matmul_rates=()))
"""Its matmuls of many rows take what elementwise multiplications would."""


def count(graph: TensorGraph) -> int:
    nodes = graph.nodes()
    return len(list(find_trained(nodes, users_of(nodes), frozenset(live_out(graph)))))


def families(graph: TensorGraph) -> list[str]:
    return [kernel.schedule.family for kernel in compiled(graph, SLOW_LIBRARY).kernels]


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.name.split(".")[0])
def test_layers_of_keras_train_in_three_kernels(path: Path, always: None) -> None:
    """Each has one attention, whatever its masks, casts and dropout are."""
    found = families(parse_graph(gzip.decompress(path.read_bytes()).decode()))
    assert found.count(ATTENTION.name) == 1
    assert found.count(ATTENTION_GRADIENT.name) == 2


def test_there_are_layers() -> None:
    assert len(GRAPHS) == 6


@pytest.mark.parametrize("step", [SMALL, Step(batch=1, queries=18, keys=20, size=24, score=padding, keys_first=True)],
                         ids=["plain", "keys first"])
def test_kernels_compute_what_their_nodes_do(step: Step, always: None) -> None:
    graph = step.graph()
    assert set(families(graph)) == {ATTENTION.name, ATTENTION_GRADIENT.name}
    check_all(graph, interpret_gpu=True)


def test_it_is_chosen_where_scores_are_large() -> None:
    assert families(LARGE.graph()).count(ATTENTION_GRADIENT.name) == 2


def test_a_mask_needs_no_kernel_of_its_own() -> None:
    """All three kernels make it of what it is made of."""
    graph = LARGE.graph()
    assert sorted(families(graph)) == [ATTENTION.name, *[ATTENTION_GRADIENT.name] * 2]


def test_memory_holds_no_scores() -> None:
    scores = 16 * 12 * 256 * 256
    for kernel in compiled(LARGE.graph(), SLOW_LIBRARY).kernels:
        assert all(node.type.numel < scores for node, _ in kernel.arguments)


def test_a_cpu_computes_no_scores_anew(always: None) -> None:
    assert len(compiled(SMALL.graph(), CPU).plan.graph.nodes()) <= len(SMALL.graph().nodes())


def test_gradients_that_nobody_wants_are_not_missed() -> None:
    """Without one of them it is another graph, which stays as it is."""
    for results in ("o", "oq", "okv", "qkv", "oqk"):
        assert count(SMALL.graph(results)) == 0
    assert count(SMALL.graph()) == 1


def test_scores_that_somebody_else_reads_are_kept() -> None:
    graph = SMALL.graph()
    nodes = graph.nodes()
    for kind in (OpKind.EXP, OpKind.SUB):
        [*_, read] = [n for n in nodes if n.kind is kind]
        assert count(TensorGraph("read", [*graph.outputs, ("p", read)])) == 0


def test_what_is_known_of_rows_may_be_read() -> None:
    graph = SMALL.graph()
    maximum = next(n for n in graph.nodes() if n.kind is OpKind.MAX)
    assert count(TensorGraph("read", [*graph.outputs, ("m", maximum)])) == 1


def test_matmuls_of_matmuls_are_none() -> None:
    """Without a softmax."""
    q, k, v, given = (B.input(name, F32, (2, 24, 24)) for name in ("q", "k", "v", "do"))
    scores = scaled(B.dot(q, k, False, True))
    gradient = scaled(B.dot(given, v, False, True))
    graph = region("linear", [B.dot(scores, v), B.dot(gradient, k), B.dot(gradient, q, True, False),
                              B.dot(scores, given, True, False)])
    assert count(graph) == 0


def test_copies_are_made_once() -> None:
    """In the graph with copies nothing is left to copy."""
    graph = SMALL.graph()
    nodes = graph.nodes()
    [trained] = find_trained(nodes, users_of(nodes), frozenset(live_out(graph)))
    changed, _ = with_copies(graph, copies_for(trained))
    assert count(changed) == 0
    again = changed.nodes()
    gradients = find_gradients(again, users_of(again), frozenset(live_out(changed)))
    assert sorted(gradient.by_keys for gradient in gradients) == [False, True]


def test_without_a_choice_the_graph_stays() -> None:
    graph = SMALL.graph()
    result = PrivateCopies(lambda graph: []).run(graph)
    assert result.graph is graph
    assert not result.modified


def test_a_plan_is_stored_and_read_back(always: None) -> None:
    plan = compiled(SMALL.graph(), H200).plan
    again = plan_of(plan.graph, groups_of(plan), plan.solver)
    assert again.patterns == plan.patterns
    assert again.free == plan.free


@pytest.mark.parametrize("patterns", [0, 1, 2])
def test_a_plan_that_is_cut_short_covers_every_node(patterns: int, always: None) -> None:
    plan = compiled(SMALL.graph(), H200).plan
    cut = limit_patterns(plan, patterns)
    assert sum(len(pattern.nodes) > 1 for pattern in cut.patterns) == patterns


def test_attentions_are_judged_as_they_would_be_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one graph for all of a region, not in one for each."""
    times = PatternCompiler(H200, aligned=True)
    alone = [step.graph() for step in (LARGE, SMALL, replace(LARGE, queries=128), LARGE)]
    region = TensorGraph("steps", [(f"{i}{key}", node) for i, graph in enumerate(alone) for key, node in graph.outputs])
    made = []
    monkeypatch.setattr(attention_choice, "with_copies",
                        lambda graph, chosen: made.append(graph) or with_copies(graph, chosen))
    together = attention_copies(region, times)
    assert made == [region]
    apart = [copies for graph in alone for copies in attention_copies(graph, times)]
    assert set(together) == set(apart)
    assert 0 < len(apart) < 8, "some pay, others do not"
