"""Whole programs that were wrong once, stitched and compared with eager TensorFlow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner
from tests.support.tiers import each_commit

FALLS_BACK = {"one_variable_twice", "variable_of_any_length", "errors_of_the_user", "sizes_that_broadcast_at_run_time",
              "losses_of_labels_that_are_broadcast"}


@pytest.fixture(scope="module", params=each_commit(["native"], ["native", "py_function"]))
def outcomes(request: pytest.FixtureRequest, forked: Runner) -> dict[str, Any]:
    """What the program says of each case. Updates of variables are left to TensorFlow in py_function."""
    done = forked(PROGRAMS / "once_wrong.py", TF_STITCH_WRAP=request.param)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {"wrap": request.param} | {line["case"]: line for line in lines}


CASES = ["loop_updates_variables", "region_around_a_loop", "update_ordered_after_a_read", "constant_that_carries_order",
         "legacy_optimizer", "one_variable_twice", "variable_of_any_length", "errors_of_the_user",
         "sizes_that_broadcast_at_run_time", "sizes_of_padded_blocks",
         "sizes_of_off_diagonals", "sizes_of_a_gradient_of_another_batch",
         "sizes_of_parts_along_an_unknown_axis", "losses_of_labels_that_are_broadcast",
         "empty_part_beside_full_ones", "many_variables_only_written"]


@pytest.mark.parametrize("case", CASES)
def test_results_are_tensorflows(outcomes: dict[str, Any], case: str) -> None:
    outcome = outcomes[case]
    assert outcome["same"]
    if outcomes["wrap"] == "native":
        assert outcome["regions"]
    if case not in FALLS_BACK:
        assert not outcome["fallbacks"]
