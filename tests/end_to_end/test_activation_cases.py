"""Every way TensorFlow runs a graph: the right results, stitched where that is promised, left alone where not."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Plain, Run, Runner
from tests.support.plain_results import OUT
from tests.support.tiers import each_commit, of_today

Arrays = Mapping[str, Any]
STITCHED = ("plain_function", "changing_shapes", "tape_inside", "tape_outside", "while_loop", "conditional",
            "conditional_update", "loop_over_array", "nested_functions", "saved_model", "special_values",
            "element_types", "many_threads")  # fmt: skip
LEFT_ALONE = ("compiled_by_xla_graph", "input_pipeline_graph", "python_function_graph")
TOLERANCE = {"element_types": 2e-2}  # sums in half precision


def results_of(runner: Runner, program: str, folder: Path, stitch: str, *cases: str, **variables: str
               ) -> tuple[Arrays, Run]:
    out = folder / f"{program}{stitch}.npz"
    done = runner(PROGRAMS / f"{program}.py", out, *cases, stitch=stitch, **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return np.load(out), done


def same(plain: Arrays, stitched: Arrays, name: str) -> None:
    keys = [key for key in plain if key.startswith(name)]
    assert keys
    tolerance = TOLERANCE.get(name.rstrip("."), 2e-5)
    for key in keys:
        np.testing.assert_allclose(stitched[key], plain[key], rtol=tolerance, atol=tolerance / 10, err_msg=key)


@pytest.fixture(scope="module")
def both(forked: Runner, tensorflow: Plain, tmp_path_factory: pytest.TempPathFactory) -> tuple[Arrays, Arrays, Run]:
    plain = np.load(io.BytesIO(tensorflow(PROGRAMS / "activation_cases.py", OUT)))
    stitched, done = results_of(forked, "activation_cases", tmp_path_factory.mktemp("cases"), "1")
    return plain, stitched, done


def _cases() -> list[str]:
    text = (PROGRAMS / "activation_cases.py").read_text()
    return [line[4:].partition("(")[0] for before, line in zip(text.splitlines(), text.splitlines()[1:], strict=False)
            if before == "@case"]  # fmt: skip


@pytest.mark.parametrize("case", _cases())
def test_results_are_tensorflows(both: tuple[Arrays, Arrays, Run], case: str) -> None:
    plain, stitched, _ = both
    same(plain, stitched, f"{case}.")


@pytest.mark.parametrize("case", STITCHED)
def test_is_stitched(both: tuple[Arrays, Arrays, Run], case: str) -> None:
    assert both[2].stitched(case) > 0


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_is_left_alone(both: tuple[Arrays, Arrays, Run], case: str) -> None:
    assert both[2].stitched(case) == 0


def test_sessions_and_keras_are_stitched(both: tuple[Arrays, Arrays, Run]) -> None:
    assert both[2].stitched("tf_graph") > 0
    assert both[2].stitched("_on_iterator") > 0


def test_saved_models_stay_clean(both: tuple[Arrays, Arrays, Run]) -> None:
    assert bool(both[1]["saved_model.3"])


def test_nothing_falls_back(both: tuple[Arrays, Arrays, Run]) -> None:
    report = both[2].report
    assert report is not None
    assert report["fallbacks"] == []
    assert any(remark["reason"].endswith("a tensor has no elements") for remark in report["remarks"])


def test_legacy_keras(run: Runner, tmp_path: Path) -> None:
    pytest.importorskip("tf_keras")
    variables = {"TF_USE_LEGACY_KERAS": "1"}
    plain, _ = results_of(run, "legacy_keras", tmp_path, "", **variables)
    stitched, done = results_of(run, "legacy_keras", tmp_path, "1", **variables)
    same(plain, stitched, "")
    assert done.report is not None
    assert sum(graph["stitched_nodes"] for graph in done.report["graphs"]) > 0


OTHER_SETTINGS = {"in Python": {"TF_STITCH_WRAP": "py_function"}, "greedy": {"TF_STITCH_PLANNER": "greedy"}}
SHARE = 4
"""Parts that the cases of a setting are cut into; one of them runs each day."""


@pytest.mark.of_today
@pytest.mark.parametrize("cases", each_commit(of_today(PARTS := [tuple(_cases()[i::SHARE]) for i in range(SHARE)], 1),
                                              PARTS), ids=lambda cases: cases[0])
@pytest.mark.parametrize("setting", each_commit(["in Python"], OTHER_SETTINGS))
def test_other_settings(forked: Runner, tmp_path: Path, both: tuple[Arrays, Arrays, Run], setting: str,
                        cases: tuple[str, ...]) -> None:
    variables = OTHER_SETTINGS[setting]
    stitched, done = results_of(forked, "activation_cases", tmp_path, "1", *cases, **variables)
    for case in cases:
        same(both[0], stitched, f"{case}.")
    assert done.report is not None
    wrap = variables.get("TF_STITCH_WRAP", "native")
    assert {region["wrap"] for region in done.report["regions"]} == {wrap}
