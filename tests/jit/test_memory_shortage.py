"""Budgets of plans for which there was no memory, and what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiler.test_recomputed_values import COLUMNS, ROWS, B, there_and_back
from tests.differential.runner import keys_of, region
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import CPU
from tf_stitch.errors import StitchError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.jit.memory_shortage import SHRINKS, MemoryShortage
from tf_stitch.placement.executable_format import StateMode

MIB = 1 << 20
GRAPH = there_and_back(summed=True)
RESULT = 2 * MIB


@pytest.fixture(scope="module")
def compiled() -> CompiledRegion:
    return compile_region(GRAPH, *keys_of(GRAPH), CompileOptions(CPU))


def shortage(compiled: CompiledRegion, free: int | None, live: int = 80 * MIB, arena: int = 100 * MIB,
             graph: TensorGraph = GRAPH) -> MemoryShortage:
    return MemoryShortage(replace(compiled.executable, arena=(arena,), live_bytes=live), graph, free)


def test_what_is_free_beside_results_is_for_the_arena(compiled: CompiledRegion) -> None:
    """Which takes more than what is alive at one time."""
    assert shortage(compiled, 50 * MIB + RESULT).budget.arena == 40 * MIB
    assert shortage(compiled, RESULT - 1).budget.arena == 0


@pytest.mark.parametrize("free", [None, 200 * MIB])
def test_an_arena_that_had_no_place_shrinks_though_it_should_have_one(compiled: CompiledRegion, free: int | None
                                                                      ) -> None:
    assert shortage(compiled, free).budget.arena == SHRINKS * 80 * MIB


def test_new_values_of_variables_are_results(compiled: CompiledRegion) -> None:
    v = B.variable("v", DType.F32, (ROWS, COLUMNS))
    graph = region("g", [B.neg(v)], {"v": B.op(OpKind.TANH, v)})
    for mode, nbytes in ((StateMode.FRESH, 2 * RESULT), (StateMode.IN_PLACE, RESULT)):
        executable = replace(compiled.executable, variables=("v",), state=((0, mode),))
        assert MemoryShortage(executable, graph, None).results == nbytes


def test_a_plan_that_takes_less_will_do(compiled: CompiledRegion) -> None:
    live = compiled.executable.live_bytes
    shortage(compiled, None).require_less(compiled)
    shortage(compiled, live + RESULT).require_less(compiled)


def test_a_plan_that_takes_no_less_says_what_it_needs(compiled: CompiledRegion) -> None:
    arena, live = compiled.executable.arena_bytes, compiled.executable.live_bytes
    with pytest.raises(StitchError, match=r"kernels need [\d.]+ MiB at least beside variables and inputs, 2\.0 MiB"):
        shortage(compiled, None, live, arena).require_less(compiled)
    with pytest.raises(StitchError, match=r"inputs, of [\d.]+ MiB that are free, .*most take (\S+ [\d.]+ MiB|results)"):
        shortage(compiled, live + RESULT - 1).require_less(compiled)
