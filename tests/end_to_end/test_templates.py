"""Templates in whole programs: tuned in one process and used in the next, forced, and refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import PROGRAMS, Run, Runner, check
from tf_stitch.atomic_file import read_verified, write_verified
from tf_stitch.cli.explain.rows import graphs
from tf_stitch.cli.explain.why import answers
from tf_stitch.runtime.host_builder import compiler

PROGRAM = PROGRAMS / "waits_for_tuning.py"
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")


@pytest.fixture(scope="module")
def plain(forked: Runner, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    done = forked(PROGRAM, 0, stitch="", TF_STITCH_CACHE=str(tmp_path_factory.mktemp("none")))
    values: list[float] = json.loads(done.stdout)
    return values


def kernels(done: Run) -> dict[str, dict[str, Any]]:
    assert done.report is not None, done.stderr[-3000:]
    return {kernel["rule"]: kernel for kernel in done.report["kernels"]}


def test_what_one_process_tunes_the_next_one_uses(forked: Runner, plain: list[float], cache: Path) -> None:
    first = forked(PROGRAM, 60, TF_STITCH_CACHE=str(cache), TF_STITCH_TUNE_SECONDS="60")
    check(first, plain)
    assert first.report is not None
    assert {entry["default"] for entry in first.report["tuned"]} == {k["template"] for k in kernels(first).values()}
    for entry in first.report["tuned"]:
        assert entry["tried"] == entry["possible"] - entry["failed"] >= 2
        assert 0 < entry["best_us"] <= entry["default_us"]
        assert (entry["best"] == entry["default"]) == (entry["best_us"] == entry["default_us"])
    (path,) = (cache / "templates").glob("*.json")
    records = json.loads(read_verified(path))
    assert len(records) == 2
    for record in records.values():  # whatever was the fastest here
        record["best"] = record["default"].replace("GRID-THREAD_256", "GRID-THREAD_128")
    write_verified(path, json.dumps(records).encode())
    shutil.rmtree(cache / "measured")  # the same plan again
    second = forked(PROGRAM, 0, TF_STITCH_CACHE=str(cache), TF_STITCH_TUNE_SECONDS="60")
    check(second, plain)
    assert second.report is not None
    assert second.report["tuned"] == [], "both are known"
    assert kernels(second)["column_reduction"]["chosen_by"] == "tuned"
    assert "GRID-THREAD_128" in kernels(second)["column_reduction"]["template"]
    assert kernels(second)["row_reduction"]["chosen_by"] == "rule"


def test_a_forced_template_is_used_where_it_can_be(forked: Runner, plain: list[float], cache: Path) -> None:
    done = forked(PROGRAM, 0, TF_STITCH_CACHE=str(cache), TF_STITCH_TEMPLATE="*[THREAD,GRID-THREAD_64];")
    check(done, plain)
    column, row = kernels(done)["column_reduction"], kernels(done)["row_reduction"]
    assert (column["chosen_by"], row["chosen_by"]) == ("forced", "rule")
    assert "[THREAD,GRID-THREAD_64]" in column["template"]
    assert done.report is not None
    (refused,) = (f for f in done.report["fallbacks"] if f["stage"] == "template")
    assert "dimension 0 of a row_reduction has the levels GRID" in refused["reason"]
    assert "Softmax" in refused["reason"] or "Tanh" in refused["reason"], "it names the user's node"
    assert done.said().count("the rules' schedule runs") == 1
    texts = "\n".join(line for graph in graphs(done.report) for line in answers(graph, "*"))
    assert f"template (by forced): {column['template']}" in texts


def test_a_wrong_template_ends_the_program(forked: Runner) -> None:
    done = forked(PROGRAM, 0, TF_STITCH_TEMPLATE="*[GRID")
    assert done.returncode != 0
    assert "TF_STITCH_TEMPLATE: template '*[GRID': its end, where ']' should be" in done.stderr
