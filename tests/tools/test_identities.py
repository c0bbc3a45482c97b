"""The table of ops whose names of sizes are not believed is what running them finds."""

from __future__ import annotations

import json

import pytest

from tf_stitch.graph.shapes.doubted_sizes import doubted_ops
from tools.identities.calls import why_not
from tools.identities.check import check
from tools.identities.registered import registered
from tools.identities.table import TABLE


@pytest.mark.parametrize("op", ["SpaceToBatchND", "BatchToSpaceND", "SpaceToBatch", "BatchToSpace"])
def test_wrong_names_are_found(op: str) -> None:
    verdict = check(registered()[op], 200, 12, 2.0)
    assert verdict.unequal
    assert op in doubted_ops()


@pytest.mark.parametrize("op", ["AddV2", "Cumsum", "MatMul", "Pad", "Softmax", "Tile"])
def test_right_names_are_believed(op: str) -> None:
    verdict = check(registered()[op], 200, 8, 2.0)
    assert verdict.ran
    assert not verdict.unequal
    assert op not in doubted_ops()


def test_the_table_speaks_of_registered_ops() -> None:
    ops, table = registered(), json.loads(TABLE.read_text())
    called = {name for name in ops if why_not(ops[name]) is None}
    assert table["doubted"].keys() | table["not run"].keys() | set(table["not reached"]) <= called
    assert sum(table["counts"].values()) + len(table["not reached"]) == len(called)
