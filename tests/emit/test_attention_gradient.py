"""Kernels of an attention's gradients as they are emitted, run on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.differential.attention_steps import Step, all_copies, causal, dropped, masked, padding
from tests.differential.runner import Array, build_cubin, compiled, random_values, reference
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.device.spec import H200
from tf_stitch.families.attention_gradient import ATTENTION_GRADIENT
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.passes import private_copies

F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
ERROR = {F32: 4e-3, F16: 4e-3, BF16: 3e-2}
"""Of results of about 1, from operands of 11, 11 and 8 bits."""
STEPS = {
    "plain": Step(),
    "one tile": Step(queries=20, keys=30, size=24),
    "many rows": Step(batch=1, queries=70, keys=65, heads=1, size=40, width=64),
    "wide": Step(batch=1, queries=40, keys=40, heads=1, size=128),
    "f16": Step(F16, queries=100, keys=40, score=masked),
    "bf16": Step(BF16, size=64, width=48, score=padding),
    "wide halves": Step(BF16, batch=1, queries=40, keys=70, heads=1, size=128, score=padding),
    "dropout": Step(BF16, weight=dropped),
    "keys first": Step(size=24, score=padding, keys_first=True),
    "causal": Step(BF16, batch=1, queries=150, keys=150, size=64, score=causal()),
    "more keys": Step(batch=1, queries=40, keys=140, score=causal(60)),
    "more queries": Step(batch=1, queries=140, keys=40, score=causal(-70)),
    "causal and masked scores weigh": Step(batch=1, queries=150, keys=150, score=causal(0, 0.25))}


@pytest.fixture(scope="module", params=STEPS)
def step(request: pytest.FixtureRequest) -> Step:
    return STEPS[request.param]


@pytest.fixture(scope="module")
def built(step: Step) -> Iterator[tuple[TensorGraph, CompiledRegion]]:
    graph = step.graph()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_copies, "attention_copies", all_copies)
        yield graph, compiled(graph, H200)


@pytest.fixture(scope="module")
def wanted(built: tuple[TensorGraph, CompiledRegion]) -> dict[str, Array]:
    graph, _ = built
    return dict(reference(graph, random_values(graph))[0])


def test_gradients_are_two_kernels(built: tuple[TensorGraph, CompiledRegion]) -> None:
    _, result = built
    families = [kernel.schedule.family for kernel in result.kernels]
    assert families.count(ATTENTION_GRADIENT.name) == 2
    assert len(result.calls) <= 2
    build_cubin(result)


def test_causal_ones_leave_tiles_out(step: Step, built: tuple[TensorGraph, CompiledRegion]) -> None:
    _, result = built
    shapes = [stmt.shape for kernel in result.kernels for stmt in kernel.program.body
              if isinstance(stmt, k.AttentionQueryGradient | k.AttentionKeyGradient)]
    assert len(shapes) == 2
    assert all((shape.causal is not None) is hides_keys(step) for shape in shapes)


def hides_keys(step: Step) -> bool:
    return step in (STEPS[name] for name in STEPS if "causal" in name or "more " in name)


@pytest.mark.parametrize("order", [Order.AHEAD, Order.BEHIND, Order.SHUFFLED])
def test_they_give_what_their_nodes_give(step: Step, built: tuple[TensorGraph, CompiledRegion],
                                         wanted: dict[str, Array], order: Order) -> None:
    """Whichever warp is ahead, and whether copies are there at once or when they are waited for."""
    graph, result = built
    got = run_on_cpu(graph, result, random_values(graph), Adversary(order))
    for key, expected in wanted.items():
        error = np.abs(got[key].astype(np.float64) - expected)
        assert np.max(error) <= ERROR[step.dtype] * max(1.0, np.max(np.abs(expected))), key
