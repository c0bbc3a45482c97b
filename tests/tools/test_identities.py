"""The table of ops whose names of sizes are not believed is what running them finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tf_stitch.graph.shapes.doubted_sizes import doubted_for_integers, doubted_ops, miscounted_ops
from tools.identities.calls import why_not
from tools.identities.check import OF_OPEN, check
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
    verdict = {"op": "B", "ran": 1, "unequal": "", "miscounted": "", "why_not": "", "status": "equal"}
    believed = verdict | {"op": "Conv3D", "unequal": "one name", "status": "unequal"}
    write([verdict, believed, verdict | {"op": "D", "unequal": "two", "status": "unequal"}], {}, ["A"], "", "")
    table = json.loads(path.read_text())
    assert table["doubted"] == {"A": "why", "D": "two"}, "B was run, C is none any more, Conv3D is believed"
    assert table["miscounted"] == {"A": f"no{OF_OPEN}"}
    assert table["of open integers"] == []


def test_a_wrong_number_is_found() -> None:
    verdict = check(registered()["SplitV"], 200, 12, 2.0)
    assert verdict.miscounted.endswith(OF_OPEN)
    assert "SplitV" in miscounted_ops()
    assert "SplitV" in doubted_for_integers()


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
    assert doubted | table["not run"].keys() | set(table["not reached"]) <= called
    assert not doubted & BELIEVED.keys()
    assert sum(table["counts"].values()) + len(table["not reached"]) == len(called)
