"""Whole programs that were wrong once, stitched and compared with eager TensorFlow; and the mistakes behind them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.errors import VerifyError
from tf_stitch.frontend.tensorflow.imported_graph import entrances, topological
from tf_stitch.graph.validation import validate_graph

ROOT = Path(__file__).parents[2]
FALLS_BACK = {"one_variable_twice", "variable_of_any_length", "errors_of_the_user", "sizes_that_broadcast_at_run_time"}


@pytest.fixture(scope="module", params=["native", "py_function"])
def outcomes(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the program says of each case. Updates of variables are left to TensorFlow in py_function."""
    environ = os.environ | {"TF_STITCH": "1", "TF_STITCH_WRAP": request.param, "TF_CPP_MIN_LOG_LEVEL": "2"}
    environ.pop("TF_STITCH_REPORT", None)
    done = subprocess.run([sys.executable, "-m", "tests.plugin.campaign_program"], cwd=ROOT, env=environ,
                          capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {"wrap": request.param} | {line["case"]: line for line in lines}


CASES = ["loop_updates_variables", "region_around_a_loop", "update_ordered_after_a_read", "constant_that_carries_order",
         "legacy_optimizer", "one_variable_twice", "variable_of_any_length", "errors_of_the_user",
         "sizes_that_broadcast_at_run_time", "empty_part_beside_full_ones", "many_variables_only_written"]


@pytest.mark.parametrize("case", CASES)
def test_results_are_tensorflows(outcomes: dict[str, Any], case: str) -> None:
    outcome = outcomes[case]
    assert outcome["same"]
    if outcomes["wrap"] == "native":
        assert outcome["regions"]
    if case not in FALLS_BACK:
        assert not outcome["fallbacks"]


def loop() -> GraphDef:
    """before -> loop(limit) -> after; the loop's Exit waits for `limit` only by way of the back edge."""
    graph = GraphDef()

    def node(name: str, op: str, *inputs: str) -> None:
        added = graph.node.add(name=name, op=op, input=inputs)
        if op == "Enter":
            added.attr["frame_name"].s = b"frame"

    node("start", "Const")
    node("before", "Exp", "start")
    node("enter", "Enter", "start")
    node("enter_limit", "Enter", "before")
    node("merge", "Merge", "enter", "next")
    node("less", "Less", "merge", "merge")
    node("cond", "LoopCond", "less")
    node("switch", "Switch", "merge", "cond")
    node("body", "Mul", "switch:1", "enter_limit")
    node("next", "NextIteration", "body")
    node("exit", "Exit", "switch")
    node("after", "Exp", "exit")
    return graph


def test_a_loop_is_left_after_all_of_it_was_entered() -> None:
    defs = {n.name: n for n in loop().node}
    assert entrances(defs) == {"exit": ["enter", "enter_limit"]}
    order = [n.name for n in topological(defs)]
    assert order.index("before") < order.index("exit")


def test_a_region_before_and_after_a_loop_is_refused() -> None:
    before, after = loop(), GraphDef()
    for node in before.node:
        if node.name not in ("before", "after"):
            after.node.add().CopyFrom(node)
    region = after.node.add(name="region", op="StitchOp", input=["start", "exit"])
    region.attr["Tin"].list.type.extend([1, 1])
    region.attr["Tout"].list.type.extend([1, 1])
    next(n for n in after.node if n.name == "enter_limit").input[:] = ["region"]
    with pytest.raises(VerifyError, match="cycle"):
        validate_graph(before, after, frozenset())
