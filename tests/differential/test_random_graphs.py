"""Random graphs mean the same on every level."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential.generator import graphs
from tests.differential.runner import Values, check_all
from tf_stitch.ir.graph import TensorGraph


@given(graphs(), st.booleans(), st.sampled_from(["ilp", "greedy"]))
def test_compiled_code_agrees_with_the_reference(case: tuple[TensorGraph, Values], aligned: bool, solver: str) -> None:
    graph, values = case
    check_all(graph, values, aligned=aligned, solver=solver)


@settings(max_examples=30)
@given(graphs(max_steps=8, max_elements=40))
def test_kernel_ir_agrees_with_the_reference(case: tuple[TensorGraph, Values]) -> None:
    graph, values = case
    check_all(graph, values, interpret_cpu=True, interpret_gpu=True, cuda=False)
