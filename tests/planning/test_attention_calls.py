"""Which attentions a library's calls compute, and that plans hold them together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.attention_steps import B, Step, causal, padding
from tests.differential.runner import check_all, compare, compiled, random_values, reference, region, run_kernel_ir
from tests.passes.test_attentions_to_calls import all_plain
from tests.support.numbers import set_numbers
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec, gpu_spec
from tf_stitch.families.attention import ATTENTION as KERNEL
from tf_stitch.families.attention_gradient import ATTENTION_GRADIENT
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, with_operands
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.libraries.attention import ATTENTION, AttentionCall
from tf_stitch.passes import attentions_to_calls
from tf_stitch.planning import attention_calls
from tf_stitch.planning.attention_calls import may_call
from tf_stitch.planning.limited_patterns import limit_patterns
from tf_stitch.planning.plan_groups import groups_of, plan_of

FUSED = replace(H200, fused_attention=True)
LARGE = Step(DType.BF16, batch=16, queries=256, keys=256, heads=12, size=64, score=causal())
"""As in GPT-2."""
SMALL = replace(LARGE, batch=2, queries=24, keys=24, heads=2, size=32)
AMONG_KERNELS_US = H200.profile.choices.attention_call_us


@pytest.fixture(autouse=True)
def by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call costs no more among kernels than by itself: attentions that are quick to try are called."""
    set_numbers(monkeypatch, H200, "choices", attention_call_us=0.0)


def called(graph: TensorGraph, device: DeviceSpec = FUSED) -> int:
    return sum(isinstance(call.call, AttentionCall) for call in compiled(graph, device).calls)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """All plain attentions are called, whether that pays or not."""
    monkeypatch.setattr(attentions_to_calls, "attentions_to_call", lambda graph, device, times: all_plain(graph))


@pytest.mark.parametrize(("results", "calls"), [("oqkv", 2), ("o", 1)])
@pytest.mark.parametrize("step", [
    LARGE, replace(LARGE, batch=4, heads=16, queries=1024, keys=1024),
    replace(LARGE, batch=32, queries=197, keys=197, score=Step.score), replace(LARGE, dtype=DType.F16)], ids=range(4))
def test_it_is_chosen_where_it_is_faster(step: Step, results: str, calls: int) -> None:
    built = compiled(step.graph(results), FUSED)
    assert not built.kernels
    assert [type(call.call) for call in built.calls] == [AttentionCall] * calls


@pytest.mark.parametrize("device", [H200, CPU], ids=lambda d: d.name)
def test_a_device_whose_calls_were_not_timed_keeps_its_kernels(device: DeviceSpec) -> None:
    assert called(SMALL.graph(), device) == 0
    assert called(SMALL.graph("o"), device) == 0


def test_kernels_of_ours_are_kept_where_they_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(LARGE.graph()) == 2
    monkeypatch.setattr(attention_calls, "call_us", lambda *sizes: 1e3)
    families = [kernel.schedule.family for kernel in compiled(LARGE.graph(), FUSED).kernels]
    assert sorted(families) == [KERNEL.name, *[ATTENTION_GRADIENT.name] * 2]
    assert [kernel.schedule.family for kernel in compiled(LARGE.graph("o"), FUSED).kernels] == [KERNEL.name]


@pytest.mark.parametrize("step", [SMALL, replace(LARGE, batch=8, queries=128, keys=128, score=Step.score)],
                         ids=["small", "short"])
def test_the_kernel_of_a_small_attention_is_kept(step: Step) -> None:
    assert [kernel.schedule.family for kernel in compiled(step.graph("o"), FUSED).kernels] == [KERNEL.name]


@pytest.mark.parametrize(("queries", "calls"), [(1, 0), (2, 0), (16, 0), (17, 1)])
def test_few_queries_are_not_called(queries: int, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a decoder has them."""
    step = replace(LARGE, queries=queries, keys=2048, score=Step.score)
    monkeypatch.setattr(attention_calls, "call_us", lambda *sizes: 0.0)
    assert called(step.graph("o")) == calls


def test_it_has_to_be_surely_faster_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our kernel is predicted to take 16.5 us."""
    for us, calls in ((14.0, 1), (14.4, 0)):
        monkeypatch.setattr(attention_calls, "call_us", lambda *sizes, us=us: us)
        assert called(LARGE.graph("o")) == calls


@pytest.mark.parametrize(("step", "calls"), [
    (LARGE, 0), (replace(LARGE, batch=32, queries=197, keys=197, score=Step.score), 0),
    (replace(LARGE, batch=4, heads=16, queries=2048, keys=2048), 1)], ids=range(3))
def test_what_a_call_costs_among_kernels_counts(step: Step, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_numbers(monkeypatch, H200, "choices", attention_call_us=AMONG_KERNELS_US)
    assert called(step.graph("o")) == calls


def test_matmuls_that_are_faster_with_scores_in_memory_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(attention_calls, "forward_apart", lambda *facts: asked.append(facts) or 10.0)
    assert called(LARGE.graph("o")) == 0
    assert asked


@pytest.mark.parametrize("step", [
    replace(LARGE, dtype=DType.F32), replace(LARGE, keys=320), replace(LARGE, size=136), replace(LARGE, size=68),
    replace(LARGE, width=32), replace(LARGE, score=padding)],
    ids=["float32", "keys behind the last query", "wide", "no multiple of 16 bytes", "narrow values", "padding"])
@pytest.mark.parametrize("results", ["oqkv", "o"])
def test_what_calls_do_not_take(step: Step, results: str) -> None:
    assert called(step.graph(results)) == 0


def heads(name: str) -> Node:
    """[batch, heads, rows, columns] of [batch, rows, heads, columns]."""
    return B.transpose(B.input(name, DType.BF16, (2, 40, 2, 32)), (0, 2, 1, 3))


def attended(q: Node, k: Node, v: Node) -> Node:
    scores = B.mul(B.cast(B.dot(q, k, False, True), DType.F32), B.constant(0.2, DType.F32))
    return B.dot(B.cast(p.softmax(scores), DType.BF16), v)


def beside_each_other() -> list[Node]:
    whole = B.input("x", DType.BF16, (2, 40, 3, 2, 32))
    parts = (B.reshape(B.slice(whole, (0, 0, i, 0, 0), (1,) * 5, (2, 40, 1, 2, 32)), (2, 40, 2, 32)) for i in range(3))
    return [B.transpose(attended(*(B.transpose(part, (0, 2, 1, 3)) for part in parts)), (0, 2, 1, 3))]


def read_twice() -> list[Node]:
    k = heads("k")
    o = attended(heads("q"), k, heads("v"))
    return [B.exp(k), B.transpose(o, (0, 2, 1, 3)), B.exp(o)]


LYING = {
    "by heads": lambda: [attended(*(B.input(name, DType.BF16, (2, 2, 40, 32)) for name in "qkv"))],
    "beside each other": beside_each_other,
    "scaled": lambda: [attended(B.mul(heads("q"), B.constant(2.0, DType.BF16)), heads("k"), heads("v"))],
    "read twice": read_twice,
    "stored by heads": lambda: [attended(heads("q"), heads("k"), heads("v"))],
    "columns apart": lambda: [attended(heads("q"), heads("k"), B.transpose(
        B.input("v", DType.BF16, (40, 2, 32, 2)), (3, 1, 0, 2)))],
}
"""Attentions that calls take; our kernel needs columns beside each other, too."""
OTHERWISE = {
    "keys in columns": lambda: [B.dot(B.cast(p.softmax(B.dot(heads("q"), B.input("k", DType.BF16, (2, 2, 32, 40)))),
                                             DType.BF16), heads("v"))],
    "backwards": lambda: [attended(B.slice(heads("q"), (0, 1, 0, 0), (1, -1, 1, 1), (2, 2, 40, 32)), heads("k"),
                                   heads("v"))],
}
"""Those whose operands they do not read as they lie."""


@pytest.mark.parametrize("name", [*LYING, *OTHERWISE])
def test_no_kernel_is_added_that_brings_operands_together(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = region(name, (LYING | OTHERWISE)[name]())
    ours = compiled(graph, H200)
    monkeypatch.setattr(attention_calls, "call_us", lambda *sizes: 0.0)
    built = compiled(graph, FUSED)
    assert called(graph) == (name in LYING)
    assert len(built.kernels) + len(built.calls) <= len(ours.kernels) + len(ours.calls)
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


@pytest.mark.parametrize("which", ["most", "total", "probabilities"])
def test_an_attention_of_which_more_is_read_is_not_called(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_calls, "call_us", lambda *sizes: 0.0)
    graph = LARGE.graph("o")
    kinds = {"most": OpKind.MAX, "total": OpKind.SUM, "probabilities": OpKind.DIV}
    [node] = [node for node in graph.nodes() if node.kind is kinds[which]]
    assert called(graph) == 1
    assert called(TensorGraph("more", [*graph.outputs, ("o9", node)])) == 0
    assert called(TensorGraph("more", [*graph.outputs, ("o9", B.exp(node))])) == 0


def test_libraries_are_asked_for_where_there_may_be_one() -> None:
    assert may_call(LARGE.graph(), H200)
    assert may_call(LARGE.graph("o"), H200)
    q, k, v = (B.input(name, DType.BF16, (2, 3, 64, 64)) for name in "qkv")
    assert not may_call(region("no softmax", [B.dot(B.dot(q, k, False, True), v)]), H200)
    assert not may_call(region("one matmul", [B.exp(B.dot(q, k, False, True))]), H200)
    assert not may_call(replace(LARGE, dtype=DType.F32).graph(), H200)
    assert not may_call(LARGE.graph(), gpu_spec(H200.profile, "80"))
    assert not may_call(LARGE.graph(), CPU)


@pytest.mark.parametrize("step", [SMALL, replace(SMALL, score=Step.score, keys=40), replace(SMALL, keys_first=True)],
                         ids=["causal", "plain", "keys first"])
@pytest.mark.parametrize(("results", "calls"), [("oqkv", 2), ("o", 1)])
def test_calls_compute_what_their_nodes_do(step: Step, results: str, calls: int, always: None) -> None:
    graph = step.graph(results)
    assert called(graph) == calls
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, compiled(graph, FUSED), values), *reference(graph, values), "GPU")


def test_what_is_around_is_in_kernels(always: None) -> None:
    """What makes operands, and what reads results by another shape."""
    graph = SMALL.graph()
    grown = TensorGraph("grown", [(key, B.exp(B.reshape(node, (48, 64)))) for key, node in graph.outputs])
    assert called(grown) == 2
    check_all(grown, interpret_gpu=True)


def test_a_plan_is_made_anew_of_its_numbers(always: None) -> None:
    plan = compiled(SMALL.graph(), FUSED).plan
    again = plan_of(plan.graph, groups_of(plan), None, plan.libraries)
    assert [pattern.nodes for pattern in again.patterns] == [pattern.nodes for pattern in plan.patterns]


def test_results_are_computed_each_alone_where_no_pattern_may_have_more(always: None) -> None:
    """As TF_STITCH_FUEL asks for."""
    graph = SMALL.graph()
    plan = limit_patterns(compiled(graph, FUSED).plan, 0)
    calls = [pattern for pattern in plan.patterns if ATTENTION.is_root(pattern.nodes[0])]
    assert [len(pattern.nodes) for pattern in calls] == [1] * 5
    built = compile_region(graph, *arguments_of(graph), CompileOptions(FUSED, patterns=0))
    assert sum(isinstance(call.call, AttentionCall) for call in built.calls) == 5
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


def test_an_attention_whose_values_need_their_gradient_is_not_called() -> None:
    """A gradient of values needs no values by itself; the call that gives it reads them."""
    whole = LARGE.graph("oqkv")
    nodes = whole.nodes()
    [old] = [n for n in nodes if getattr(n.attrs, "key", "") == "v"]
    [gradient] = [node for key, node in whole.outputs if key == "o3"]
    new: dict[Node, Node] = {}

    def made(node: Node) -> Node:
        if node is old:
            return B.reshape(made(gradient), old.type.shape)
        if node not in new:
            new[node] = with_operands(node, tuple(map(made, node.operands)))
        return new[node]

    graph = TensorGraph("turned", [(key, made(node)) for key, node in whole.outputs])
    assert called(graph) == 0
    assert called(whole) == 2
