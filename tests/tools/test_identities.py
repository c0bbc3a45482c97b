"""The table of ops whose names of sizes are not believed is what running them finds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tf_stitch.graph.shapes.doubted_sizes import doubted_for_integers, doubted_ops, miscounted_ops
from tools.identities.calls import draw, why_not
from tools.identities.check import OF_KNOWN, OF_OPEN, check
from tools.identities.joint_recipes import JOINT_RECIPES
from tools.identities.page import PAGE, UNSEEN, page
from tools.identities.registered import registered
from tools.identities.table import BELIEVED, TABLE, write


@pytest.mark.parametrize("op", ["SpaceToBatchND", "BatchToSpaceND", "SpaceToBatch", "BatchToSpace"])
def test_wrong_names_are_found(op: str) -> None:
    verdict = check(registered()[op], 200, 12, 2.0)
    assert verdict.unequal
    assert op in doubted_ops()


def test_what_a_run_does_not_reach_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"doubted": {"A": "why", "B": "why", "C": "why"}, "miscounted": {"A": f"no{OF_OPEN}"}}))
    monkeypatch.setattr("tools.identities.table.TABLE", path)
    monkeypatch.setattr("tools.identities.table.PAGE", tmp_path / "page.md")
    verdict = {"op": "B", "ran": 1, "unequal": "", "miscounted": "", "why_not": "", "status": "equal"}
    unequal = [verdict | {"op": op, "unequal": "two", "miscounted": miscounted, "status": "unequal"}
               for op, miscounted in (("Conv3D", ""), ("D", f"2{OF_KNOWN}"), ("ResizeBicubicGrad", f"3{OF_KNOWN}"))]
    not_run = [verdict | {"op": op, "ran": 0, "status": f"not run{shared}"}
               for op, shared in (("E", ""), ("F", ", no names shared"))]  # fmt: skip
    write([verdict, *unequal, *not_run], {}, ["A"], "", "")
    table = json.loads(path.read_text())
    assert table["doubted"] == {"A": "why", "D": "two", "E": UNSEEN, "ResizeBicubicGrad": "two"}, (
        "B was run, Conv3D is believed, there is nothing to believe of F")
    assert table["miscounted"] == {"A": f"no{OF_OPEN}", "D": f"2{OF_KNOWN}"}, "the gradient's number is believed"
    assert table["of known sizes"] == ["D"]
    assert table["of open integers"] == []
    page_text = (tmp_path / "page.md").read_text()
    assert "| A | why | no where an integer is no constant |" in page_text
    assert "of 1 more ops are not believed, since no call of them ran: E." in page_text


def test_a_wrong_number_is_found() -> None:
    verdict = check(registered()["SplitV"], 200, 12, 2.0)
    assert verdict.miscounted.endswith(OF_OPEN)
    assert "SplitV" in miscounted_ops()
    assert "SplitV" in doubted_for_integers()


def test_lists_of_types_are_drawn() -> None:
    verdict = check(registered()["IdentityN"], 20, 4, 2.0)
    assert verdict.ran == 4


@pytest.mark.parametrize("op", ["AddV2", "Cumsum", "MatMul", "Pad", "Softmax", "Tile"])
def test_right_names_are_believed(op: str) -> None:
    verdict = check(registered()[op], 200, 8, 2.0)
    assert verdict.ran
    assert not verdict.unequal
    assert op not in doubted_ops()


def test_the_table_speaks_of_registered_ops() -> None:
    ops, table = registered(), json.loads(TABLE.read_text())
    called = {name for name in ops if why_not(ops[name]) is None}
    doubted = table["doubted"].keys() | table["miscounted"].keys()
    not_run = {op for ops in table["not run"].values() for op in ops}
    assert doubted | not_run | set(table["not reached"]) <= called
    assert not doubted & BELIEVED.keys()
    assert sum(table["counts"].values()) + len(table["not reached"]) == len(called)


def test_the_page_is_the_table_s() -> None:
    assert PAGE.read_text() == page(json.loads(TABLE.read_text()))


@pytest.mark.parametrize("op", sorted(JOINT_RECIPES))
def test_recipes_fit_their_ops(op: str) -> None:
    """All that a recipe draws for an op is there, and can be drawn."""
    registered_op = registered()[op]
    drawn = draw(registered_op, np.random.default_rng(0))
    assert {arg.name for arg in registered_op.input_arg} == drawn.inputs.keys()


@pytest.mark.parametrize("op", ["Conv2DBackpropInput", "MaxPoolGrad", "FusedBatchNormV3", "Mean"])
def test_ops_with_recipes_run(op: str) -> None:
    assert check(registered()[op], 40, 4, 2.0).ran
