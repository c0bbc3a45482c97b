"""Templates on a GPU: what tuning may choose computes what the rules' kernels do, and tuning itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential import patterns as p
from tests.differential.gpu_run import run_gpu
from tests.differential.runner import cache, compare, keys_of, random_values, reference, region
from tests.support.whole_patterns import x
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.compiler.program_times import ProgramTimer
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.compiler.template_kernels import possible_kernels
from tf_stitch.compiler.template_tuner import rule_kernels, tune, worth_trying
from tf_stitch.compiler.tilings import template_of
from tf_stitch.config import ForcedTemplate
from tf_stitch.device.spec import H200
from tf_stitch.ir.graph import Node
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.runtime.device_run import gpu_is_here
from tf_stitch.schedule.kernel_schedule import Origin
from tf_stitch.templates import Template, parse_template

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_is_here(), reason="no GPU")]
B = p.B
OUTPUTS = {
    "softmax": p.softmax(x(500, 1000)), "odd rows": p.softmax(x(700, 77)), "short rows": B.sum(x(70_000, 8), [1]),
    "long rows": p.softmax(x(37, 40_000)), "longest rows": p.softmax(x(3, 1_000_003)),
    "norm": p.layernorm(x(300, 768), x(768), x(768)), "columns": B.sum(B.exp(x(200, 1000)), [0]),
    "elements": B.exp(x(999, 52)), "transpose": B.exp(B.transpose(x(400, 360), [1, 0])),
    "running sums": B.cumsum(x(700, 50), False, False)}


def options(template: Template | None = None, tuned: TunedTemplates | None = None) -> CompileOptions:
    forced = () if template is None else (ForcedTemplate("*", template),)
    plan = PlanOptions("greedy", barriers=False)
    return CompileOptions(H200, plan, templates=TemplateChoice(H200, True, forced, tuned))


@pytest.mark.parametrize("name", OUTPUTS)
def test_candidates_are_right(name: str) -> None:
    output: Node = OUTPUTS[name]
    graph = region(name, [output])
    values = random_values(graph)
    want, allowed = reference(graph, values)
    kernels = compile_region(graph, *keys_of(graph), options()).kernels
    for default in rule_kernels(kernels, H200, True).values():
        possible = list(possible_kernels(default, H200, True))
        for kernel in worth_trying(possible, H200, 12):
            template = template_of(kernel.schedule)
            forced = compile_region(graph, *keys_of(graph), options(template))
            assert kernel is default or any(one.schedule.origin is Origin.FORCED for one in forced.kernels), template
            compare(graph, run_gpu(graph, forced, values, runs=2), want, allowed, str(template))


def test_a_slow_template_loses_and_the_winner_is_used(tmp_path: Path) -> None:
    """Threads that read whole rows each make the memory fetch everything many times."""
    graph = region("sums", [B.sum(x(200_000, 64), [1])])
    slow = parse_template("*[GRID-CTA_128,THREAD-CTA_1];")
    (kernel,) = compile_region(graph, *keys_of(graph), options(slow)).kernels
    (good,) = compile_region(graph, *keys_of(graph), options()).kernels
    timer = ProgramTimer(H200, 0, cache())
    slow_us, good_us = timer([kernel.program, good.program])
    assert slow_us > 1.2 * good_us
    found = tune(kernel, H200, True, timer)
    assert found is not None
    assert found.failed == {}
    assert found.best_us < 0.9 * found.default_us
    tuned = TunedTemplates(tmp_path / "gpu.json")
    ((key, default),) = rule_kernels([good], H200, True).items()
    again = tune(default, H200, True, timer)
    assert again is not None
    tuned.add({key: again.record()})
    (used,) = compile_region(graph, *keys_of(graph), options(tuned=tuned)).kernels
    assert str(template_of(used.schedule)) == again.record().best
