"""Random graphs by random templates mean the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential.generator import Case, cases
from tests.differential.runner import LIGHT, compare, keys_of, reference, run_host, run_kernel_ir
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.compiler.template_kernels import possible_kernels, templated
from tf_stitch.compiler.tilings import template_of
from tf_stitch.device.spec import CPU, H200
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.templates import parse_template

SLOW = 300
"""Threads of a block from which the kernel interpreter takes too long."""


@dataclass(frozen=True)
class AnyTemplate(TemplateChoice):
    """One of a pattern's candidates by chance."""

    random: random.Random = field(default_factory=random.Random)

    def forced_kernel(self, default: LoweredKernel) -> LoweredKernel:
        first, *others = possible_kernels(default, self.device, self.aligned)
        chosen = self.random.choice([first, *(k for k in others if k.program.threads < SLOW)])
        again = templated(parse_template(str(template_of(chosen.schedule))), default, self.device, self.aligned)
        assert again.program == chosen.program, "its template says all"
        verify_program(again.program)
        return again


def compiled(case: Case, choice: AnyTemplate) -> CompiledRegion:
    options = CompileOptions(choice.device, PlanOptions("greedy"), choice.aligned, templates=choice)
    return compile_region(case.graph, *keys_of(case.graph), options)


@settings(max_examples=30)
@given(cases(max_steps=8, max_elements=60), st.randoms(use_true_random=False), st.booleans())
def test_any_template_agrees_with_the_reference(case: Case, chance: random.Random, aligned: bool) -> None:
    want, allowed = reference(case.graph, case.values)
    gpu = compiled(case, AnyTemplate(H200, aligned, random=chance))
    compare(case.graph, run_kernel_ir(case.graph, gpu, case.values), want, allowed, "H200 kernel IR")
    cpu = compiled(case, AnyTemplate(CPU, True, random=chance))
    if cpu.source:
        compare(case.graph, run_host(case.graph, cpu, case.values, LIGHT), want, allowed, "compiled CPU code")
