"""The campaign of random graphs: graphs that are right pass, and what is wrong is counted as what it is."""

from __future__ import annotations

import pytest

from tests.differential.campaign import Outcome, summary, try_graph
from tests.differential.redzones import RedzoneError
from tests.differential.runner import Values, run_kernel_ir
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.families.registry import FAMILIES
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.schedule.kernel_schedule import COOPERATIVE

SEED = 3


def interpreted(graph: TensorGraph, region: CompiledRegion, values: Values, **_: object) -> Values:
    return run_kernel_ir(graph, region, values)


def off_by_one(graph: TensorGraph, region: CompiledRegion, values: Values, **_: object) -> Values:
    found = interpreted(graph, region, values)
    return {key: ~x if x.dtype == bool else x + x.dtype.type(1) for key, x in found.items()}


def beside_a_buffer(*_: object, **__: object) -> Values:
    raise RedzoneError("buffer 3")


def no_device(*_: object, **__: object) -> Values:
    raise RuntimeError("no device")


def test_right_graphs_pass() -> None:
    outcomes = [try_graph(SEED, number, interpreted) for number in (0, 1, 3)]
    assert [outcome.failure for outcome in outcomes] == ["", "", ""], outcomes
    figures = summary(outcomes)
    assert figures["graphs"] == 3
    assert figures["mismatches"] == 0
    assert figures["kernels"] == sum(o.kernels for o in outcomes) > 3


@pytest.mark.parametrize(("run", "failure"), [(off_by_one, "mismatch"), (beside_a_buffer, "redzone"),
                                              (no_device, "error")])  # fmt: skip
def test_what_is_wrong_is_counted(run: object, failure: str) -> None:
    outcome = try_graph(SEED, 0, run)  # type: ignore[arg-type]
    assert outcome.failure == failure
    assert "graph random" in outcome.message
    figures = summary([outcome, Outcome(1, "plain")])
    assert [figures[key] for key in ("mismatches", "redzones", "errors")] == [
        failure == "mismatch", failure == "redzone", failure == "error"]  # fmt: skip


WANTED = {*(f"rule {family.name}" for family in FAMILIES if not family.matmuls), f"rule {COOPERATIVE}",
          "rows shared by blocks", "global values", "regional values",
          "kernels of other sizes", "launches of several kernels"} - {
              "rule scatter", "rule row_update", "rule window_sums",
              "rule windows_in_registers", "rule row_values"}  # fmt: skip
"""Not sums over windows and powers before a broadcast, which the generator makes none of (test_windows.py,
test_register_windows.py and test_row_values.py in tests/families). Not what writes rows by indices, which the generator
would have to bound (test_scatter.py and test_row_update.py there). Not attention: it multiplies in half or TF32
precision, which comparing with float64 has no bounds for here (test_gpu.py and tests/emit/test_attention.py have)."""


def test_a_campaign_soon_reaches_every_rule() -> None:
    outcomes, missing = list[Outcome](), set(WANTED)
    while missing and len(outcomes) < 300:
        outcomes.append(try_graph(SEED, len(outcomes), None))
        assert not outcomes[-1].failure, outcomes[-1].message
        missing -= {what for what, times in outcomes[-1].reached.items() if times}
    assert not missing
