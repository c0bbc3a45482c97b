"""Which attentions a library's calls compute, and that plans hold them together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential.attention_steps import B, Step, causal, padding
from tests.differential.runner import check_all, compare, compiled, random_values, reference, run_kernel_ir
from tests.transforms.test_attentions_to_calls import all_plain
from tf_stitch.compiler import pipeline
from tf_stitch.compiler.pipeline import CompileOptions, compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec, gpu_spec
from tf_stitch.families.attention import ATTENTION as KERNEL
from tf_stitch.families.attention_gradient import ATTENTION_GRADIENT
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, with_operands
from tf_stitch.libraries.attention import ATTENTION, AttentionCall
from tf_stitch.planning import attention_calls
from tf_stitch.planning.attention_calls import may_call
from tf_stitch.planning.limited_patterns import limit_patterns
from tf_stitch.planning.plan_groups import groups_of, plan_of

FUSED = replace(H200, fused_attention=True)
LARGE = Step(DType.BF16, batch=16, queries=256, keys=256, heads=12, size=64, score=causal())
"""As in GPT-2."""
SMALL = replace(LARGE, batch=2, queries=24, keys=24, heads=2, size=32)


def called(graph: TensorGraph, device: DeviceSpec = FUSED) -> int:
    return sum(isinstance(call.call, AttentionCall) for call in compiled(graph, device).calls)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """All plain attentions are called, whether that pays or not."""
    monkeypatch.setattr(pipeline, "attentions_to_call", lambda graph, device, times: all_plain(graph))


@pytest.mark.parametrize("step", [
    LARGE, replace(LARGE, batch=4, heads=16, queries=1024, keys=1024),
    replace(LARGE, batch=32, queries=197, keys=197, score=Step.score), replace(LARGE, dtype=DType.F16)], ids=range(4))
def test_it_is_chosen_where_it_is_faster(step: Step) -> None:
    built = compiled(step.graph(), FUSED)
    assert not built.kernels
    assert [type(call.call) for call in built.calls] == [AttentionCall] * 2


@pytest.mark.parametrize("device", [H200, CPU], ids=lambda d: d.name)
def test_a_device_whose_calls_were_not_timed_keeps_its_kernels(device: DeviceSpec) -> None:
    assert called(SMALL.graph(), device) == 0


def test_kernels_of_ours_are_kept_where_they_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(LARGE.graph()) == 2
    monkeypatch.setattr(attention_calls, "call_us", lambda *sizes: 1e3)
    families = [kernel.schedule.family for kernel in compiled(LARGE.graph(), FUSED).kernels]
    assert sorted(families) == [KERNEL.name, *[ATTENTION_GRADIENT.name] * 2]


@pytest.mark.parametrize("step", [
    replace(LARGE, dtype=DType.F32), replace(LARGE, keys=320), replace(LARGE, size=136), replace(LARGE, size=68),
    replace(LARGE, width=32), replace(LARGE, score=padding)],
    ids=["float32", "keys behind the last query", "wide", "no multiple of 16 bytes", "narrow values", "padding"])
def test_what_calls_do_not_take(step: Step) -> None:
    assert called(step.graph()) == 0


def test_libraries_are_asked_for_where_there_may_be_one() -> None:
    assert may_call(LARGE.graph(), H200)
    assert not may_call(LARGE.graph("o"), H200)
    assert not may_call(replace(LARGE, dtype=DType.F32).graph(), H200)
    assert not may_call(LARGE.graph(), gpu_spec(H200.profile, "80"))
    assert not may_call(LARGE.graph(), CPU)


@pytest.mark.parametrize("step", [SMALL, replace(SMALL, score=Step.score, keys=40), replace(SMALL, keys_first=True)],
                         ids=["causal", "plain", "keys first"])
def test_calls_compute_what_their_nodes_do(step: Step, always: None) -> None:
    graph = step.graph()
    assert called(graph) == 2
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
