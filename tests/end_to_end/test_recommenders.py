"""Recommenders train and infer with and without TF_STITCH=1: same losses, same outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.zoo import RECOMMENDERS, load, module_of
from tests.end_to_end.conftest import Plain, Runner
from tests.support.fork_server import MODULE
from tests.support.tiers import each_commit, of_today
from tests.support.zoo_case import Case, check_model


@pytest.mark.of_today
@pytest.mark.parametrize("name", each_commit(of_today(RECOMMENDERS, 1), RECOMMENDERS))
@pytest.mark.timeout(600)
def test_same_losses_and_outputs(name: str, forked: Runner, tensorflow: Plain, tmp_path: Path) -> None:
    """Of one each day."""
    check_model(Case(name), forked, tensorflow, tmp_path)


@pytest.mark.parametrize(("name", "update"), [("dcn", "AssignSubVariableOp"), ("dlrm", "ResourceScatterSub")])
@pytest.mark.timeout(600)
def test_a_step_is_one_region(name: str, update: str, forked: Runner) -> None:
    """Where regions hold all matmuls, as on GPUs: look-ups, towers, gradients of tables, and the optimizer, dense or of
    the rows that occur."""
    done = forked(MODULE, module_of(name), "--steps", 2, "--mode", "train", stitch="1", TF_STITCH_SCOPE="region")
    assert done.report is not None, done.stderr[-3000:]
    steps = [graph for graph in done.report["graphs"] if "train_step" in graph["graph"] and graph["regions"]]
    homes = {(node["op"], node["region"]) for graph in steps for node in graph["nodes"]
             if node["op"] in ("GatherV2", "MatMul", "UnsortedSegmentSum", update)}
    assert len(homes) == 4
    assert len({region for _, region in homes} - {None}) == 1


@pytest.mark.parametrize("name", RECOMMENDERS)
def test_is_found_by_its_name(name: str) -> None:
    assert load(name).name == name
