"""Random graphs mean the same on every level."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential.generator import Case, cases
from tests.differential.runner import LIGHT, check_all


@given(cases(), st.booleans(), st.sampled_from(["ilp", "greedy"]))
def test_compiled_code_agrees_with_the_reference(case: Case, aligned: bool, solver: str) -> None:
    check_all(case.graph, case.values, aligned=aligned, solver=solver, options=LIGHT)


@settings(max_examples=30)
@given(cases(max_steps=8, max_elements=40))
def test_kernel_ir_agrees_with_the_reference(case: Case) -> None:
    check_all(case.graph, case.values, interpret_cpu=True, interpret_gpu=True, cuda=False, options=LIGHT)
