"""Which template a kernel gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, keys_of, random_values, reference, region, run_kernel_ir
from tests.planning.paper_graphs import figure_7a
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.compiler.template_kernels import possible_kernels
from tf_stitch.compiler.template_tuner import rule_kernels, text_of
from tf_stitch.compiler.tilings import template_of
from tf_stitch.config import ForcedTemplate, load_config
from tf_stitch.device.spec import H200
from tf_stitch.errors import ConfigError, SourceLoc
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.planning.measured_cost import measurement_key
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.planning.tuned_templates import TunedTemplate, TunedTemplates
from tf_stitch.schedule.kernel_schedule import Origin
from tf_stitch.templates import parse_template

OTHER = "max_1[GRID-CTA_8,THREAD_4-CTA_4-THREAD_4]; mul_1[GRID-CTA_8,THREAD_4-CTA_4-THREAD_4];"


def softmax(name: str = "model/softmax") -> TensorGraph:
    build = Builder(SourceLoc(name, "Softmax"))
    row = build.input("x:0", DType.F32, (12, 64))
    e = build.exp(build.sub(row, build.reduce(p.OpKind.MAX, row, [-1], True)))
    return region("softmax", [build.div(e, build.sum(e, [-1], True))])


def compiled(graph: TensorGraph, choice: TemplateChoice | None) -> CompiledRegion:
    return compile_region(graph, *keys_of(graph), CompileOptions(H200, templates=choice))


def forced(text: str, glob: str = "*") -> tuple[ForcedTemplate, ...]:
    return (ForcedTemplate(glob, parse_template(text)),)


def template(result: CompiledRegion) -> tuple[str, Origin]:
    (kernel,) = result.kernels
    return str(template_of(kernel.schedule)), kernel.schedule.origin


def test_a_forced_template_is_what_runs() -> None:
    graph = softmax()
    assert template(compiled(graph, None))[1] is Origin.RULE
    result = compiled(graph, TemplateChoice(H200, True, forced("*[GRID-CTA_8,THREAD_4-CTA_4-THREAD_4];", "*/soft*")))
    assert template(result) == (OTHER, Origin.FORCED)
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, result, values), *reference(graph, values), "forced")


def test_names_decide() -> None:
    choice = TemplateChoice(H200, True, forced(OTHER, "other/*"))
    assert template(compiled(softmax(), choice))[1] is Origin.RULE
    assert template(compiled(softmax("other/softmax"), choice))[1] is Origin.FORCED


def test_a_template_that_cannot_be_is_said_and_the_rules_choose() -> None:
    said: list[tuple[str, str]] = []
    choice = TemplateChoice(H200, True, forced("*[GRID,CTA_3];"), refused=lambda *told: said.append(told))
    assert template(compiled(softmax(), choice))[1] is Origin.RULE
    (where, why), = said
    assert "model/softmax" in where
    assert "model/softmax (Softmax): 3 threads share a row" in why


def test_a_tuned_template_is_used_while_the_rules_choose_what_they_did(tmp_path: Path) -> None:
    graph = softmax()
    plain = compiled(graph, None)
    default = template(plain)[0]
    key = measurement_key(plain.kernels[0].schedule.pattern, True)
    tuned = TunedTemplates(tmp_path / "h200.json")
    choice = TemplateChoice(H200, True, tuned=tuned)
    assert template(compiled(graph, choice))[1] is Origin.RULE
    tuned.add({key: TunedTemplate(default, OTHER, 2.0, 1.0, 2, 2)})
    assert template(compiled(graph, choice)) == (OTHER, Origin.TUNED)
    tuned.add({key: TunedTemplate("max_1[GRID,CTA];", OTHER, 2.0, 1.0, 2, 2)})
    assert template(compiled(graph, choice))[1] is Origin.RULE, "the record is out of date"
    tuned.add({key: TunedTemplate(default, default, 2.0, 2.0, 2, 2)})
    assert template(compiled(graph, choice))[1] is Origin.RULE


def test_what_is_forced_goes_before_what_was_tuned(tmp_path: Path) -> None:
    graph = softmax()
    plain = compiled(graph, None)
    tuned = TunedTemplates(tmp_path / "h200.json")
    tuned.add({measurement_key(plain.kernels[0].schedule.pattern, True):
               TunedTemplate(template(plain)[0], OTHER, 2.0, 1.0, 2, 2)})  # fmt: skip
    result = compiled(graph, TemplateChoice(H200, True, forced("*[GRID-WARP_2,CTA];"), tuned))
    assert result.kernels[0].schedule.origin is Origin.FORCED
    assert result.kernels[0].schedule.mapping.rows_per_block == 2


def test_the_variable() -> None:
    text = "*/softmax*=max_1[GRID,CTA]; div_1[GRID,CTA]S; | *[GRID-CTA_256];"
    found = load_config({"TF_STITCH_TEMPLATE": text}).templates
    assert [(f.nodes, str(f.template)) for f in found] == [
        ("*/softmax*", "max_1[GRID,CTA]; div_1[GRID,CTA]S;"), ("*", "*[GRID-CTA_256];")]


@pytest.mark.parametrize("text", ["*[GRID", "x=", "a=*[GRID]; | "])
def test_a_wrong_variable_ends_the_program_with_a_line_that_says_where(text: str) -> None:
    with pytest.raises(ConfigError, match=r"TF_STITCH_TEMPLATE: template .* where .* should be"):
        load_config({"TF_STITCH_TEMPLATE": text})


def records(graph: TensorGraph, folder: Path) -> TunedTemplates:
    """As if for each kernel of the graph its second candidate had won."""
    tuned = TunedTemplates(folder / "records.json")
    options = CompileOptions(H200, PlanOptions(barriers=False))
    for key, default in rule_kernels(compile_region(graph, *keys_of(graph), options).kernels, H200, True).items():
        best = next(k for k in list(possible_kernels(default, H200, True))[1:] if k.program.threads <= 256)
        tuned.add({key: TunedTemplate(text_of(default), text_of(best), 2.0, 1.0, 2, 2)})
    return tuned


def test_cooperative_kernels_keep_the_rules_templates(tmp_path: Path) -> None:
    graph = figure_7a()
    tuned = records(graph, tmp_path)
    assert len(tuned) > 1
    choice = TemplateChoice(H200, True, tuned=tuned)
    (fused,), (plain,) = compiled(graph, choice).kernels, compiled(graph, None).kernels
    assert fused.program == plain.program
    apart = compile_region(graph, *keys_of(graph), CompileOptions(H200, PlanOptions(barriers=False), templates=choice))
    assert {kernel.schedule.origin for kernel in apart.kernels} == {Origin.TUNED}


def test_kernels_with_inlined_matmuls_are_tuned_too(tmp_path: Path) -> None:
    build = Builder()
    x, y = build.input("x:0", DType.F32, (24, 3)), build.input("y:0", DType.F32, (3, 32))
    graph = region("matmul", [p.softmax(build.dot(x, y))])
    result = compiled(graph, TemplateChoice(H200, True, tuned=records(graph, tmp_path)))
    assert Origin.TUNED in {kernel.schedule.origin for kernel in result.kernels}
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, result, values), *reference(graph, values), "tuned")
