"""What is said of builds under budgets of memory."""

from __future__ import annotations

from tests.compiler.losses import loss
from tests.differential.runner import compiled
from tf_stitch.config import MemoryBudget
from tf_stitch.device.spec import CPU
from tf_stitch.jit.build_remarks import remark_on
from tf_stitch.report.report import Report

KIB = 1024


def said(budget: MemoryBudget | None, is_asked_for: bool = True) -> list[str]:
    report = Report()
    remark_on(compiled(loss("dense", of_bias=False), CPU, memory=budget), 3, report, is_asked_for)
    remarks = report.document()["remarks"]
    assert all((entry["stage"], entry["where"]) == ("memory", "region 3") for entry in remarks)
    return sorted(entry["reason"] for entry in remarks)


def test_a_budget_that_is_kept_to_is_not_worth_a_word() -> None:
    assert not said(None)
    assert not said(MemoryBudget(arena=300 * KIB))


def test_pieces_and_what_is_over_a_budget_are() -> None:
    [pieces] = said(MemoryBudget(arena=200 * KIB))
    assert "its rows run in 2 pieces" in pieces
    *_, over = said(MemoryBudget(arena=KIB))
    assert over.startswith("takes ")
    assert len(said(MemoryBudget(arena=KIB), is_asked_for=False)) == 1
