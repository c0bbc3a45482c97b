"""Tensor passes: a case each changes and one it leaves, idempotence, and the meaning kept on random graphs."""

from __future__ import annotations

import random

import pytest

from tests.differential.generator import make_case
from tests.differential.runner import compare, reference, region
from tf_stitch.compiler.pipeline import passes
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.pass_manager import Instrument, Pass, run_passes
from tf_stitch.passes.copy_outputs import CopyOutputs
from tf_stitch.passes.cse import EliminateCommonSubexpressions
from tf_stitch.passes.fold_constants import FoldConstants
from tf_stitch.passes.simplify_algebra import SimplifyAlgebra
from tf_stitch.passes.simplify_movement import SimplifyMovement
from tf_stitch.passes.two_stage_reductions import TwoStageReductions

B, F32 = Builder(), DType.F32
X = B.input("x:0", F32, (4, 6))
SPLIT = TwoStageReductions(tasks=8, shortest=4, column_tile=4, column_parts=8, longest_part=1 << 14)
ALL: list[Pass[TensorGraph]] = [EliminateCommonSubexpressions(), FoldConstants(), SimplifyMovement(),
                                SimplifyAlgebra(), SPLIT, CopyOutputs()]


@pytest.mark.parametrize("p", ALL, ids=lambda p: p.name)
@pytest.mark.parametrize("seed", range(25))
def test_passes_are_idempotent_and_keep_the_meaning(p: Pass[TensorGraph], seed: int) -> None:
    case = make_case(random.Random(seed), 14, 300)
    first = p.run(case.graph)
    verify_graph(first.graph, static=True)
    second = p.run(first.graph)
    assert not second.modified, format_graph(first.graph) + format_graph(second.graph)
    assert first.modified or format_graph(first.graph) == format_graph(case.graph)
    want, allowed = reference(case.graph, case.values)
    compare(first.graph, interpret(first.graph, case.values), want, allowed, p.name)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(4096, 1, 4096), (100000,), (3, 70000), (70000, 3), (2, 3, 5, 7)])
def test_the_pipeline_of_passes_settles(shape: tuple[int, ...], device: object) -> None:
    x = B.input("x:0", F32, shape)
    graph = region("g", [B.sum(x, [0, len(shape) - 1] if len(shape) > 1 else [0]), B.mean(x, [0])])
    once = run_passes(graph, passes(device))  # type: ignore[arg-type]
    assert format_graph(run_passes(once, passes(device))) == format_graph(once)  # type: ignore[arg-type]


def test_the_instrument_sees_every_pass_and_every_change() -> None:
    seen: list[str] = []
    instrument = Instrument(after=[lambda name, graph: seen.append(name)])
    run_passes(region("g", [B.add(B.exp(X), B.exp(X))]), ALL, instrument)
    assert seen == ["cse"]
    assert set(instrument.seconds) == {p.name for p in ALL}


def test_a_graph_is_left_as_it_was() -> None:
    graph = TensorGraph("g", [("o", B.add(B.exp(X), B.exp(X)))])
    text = format_graph(graph)
    run_passes(graph, ALL)
    assert format_graph(graph) == text
