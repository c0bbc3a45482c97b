"""Loops that decode: the same tokens as TensorFlow's, and bodies that the cache does not cut."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.zoo import module_of
from tests.end_to_end.conftest import PRECISE, PROGRAMS, Plain, Runner
from tests.support.fork_server import MODULE
from tests.support.plain_results import OUT
from tests.support.tiers import each_commit
from tests.support.zoo_case import Case, check_model

PROGRAM = PROGRAMS / "decoding.py"
BEFORE_A_GPUS_LOOP = {"TensorFlow has this small integer in host memory",
                      "one working node together with what it could be stitched to; TF_STITCH_MIN_REGION is 2"}


def tokens(text: str) -> Any:
    found = json.loads(text)
    assert all(first == second and len({len(row) for row in first}) == 1 for first, second in found.values())
    return found


@pytest.fixture(scope="module", params=[1, 3])
def plain(request: pytest.FixtureRequest, tensorflow: Plain) -> tuple[int, Any]:
    """A batch, and TensorFlow's tokens."""
    return request.param, tokens(tensorflow(PROGRAM, request.param).decode())


HOW = {"loop as an op": {}, "loop left alone": {"TF_STITCH_LOOP_OP": "0"},
       "in Python": {"TF_STITCH_WRAP": "py_function"}}


@pytest.mark.parametrize("how", each_commit(["loop as an op", "loop left alone"], HOW))
def test_tokens(plain: tuple[int, Any], how: str, forked: Runner) -> None:
    (batch, wanted), environment = plain, HOW[how]
    done = forked(PROGRAM, batch, **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert tokens(done.stdout) == wanted
    if not environment:
        greedy = next(graph for graph in done.report["graphs"] if graph["regions"])
        assert set(greedy["left_out"]) <= (BEFORE_A_GPUS_LOOP if greedy["device"] == "GPU" else set())
        assert [loop["reason"] for loop in greedy["loops"]] == [None]


LOOPS = {"decoding small": 2, "llama-decoding small": 2, "llama-decoding small_16": 2, "beam-decoding small": 1,
         "beam-decoding small_16": 1}


@pytest.mark.parametrize("program", each_commit([name for name in LOOPS if name.endswith("small")], LOOPS))
@pytest.mark.timeout(600)
def test_zoo_program(forked: Runner, tensorflow: Plain, tmp_path: Path, program: str) -> None:
    """Models of Keras: their loops, of likely words, of drawn ones and of beams, are one op each, and their texts
    TensorFlow's."""
    model, config = program.split()
    command = (module_of(model), "--mode", "infer", "--config", config, "--steps", 4, "--out")
    plain = np.load(io.BytesIO(tensorflow(MODULE, *command, OUT, **PRECISE)))
    done = forked(MODULE, *command, out := tmp_path / "texts.npz", **PRECISE)
    assert done.returncode == 0, done.stderr[-3000:]
    stitched = np.load(out)
    names = [name for name in plain.files if name.startswith("output/")]
    assert len(names) == 8
    for name in names:
        if plain[name].dtype.kind == "f":
            np.testing.assert_allclose(stitched[name], plain[name], rtol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(stitched[name], plain[name], err_msg=name)
    assert done.report is not None
    assert [loop["reason"] for graph in done.report["graphs"] for loop in graph["loops"]] == [None] * LOOPS[program]
    assert not done.report["fallbacks"]


@pytest.mark.timeout(600)
def test_two_layers_of_lstms(forked: Runner, tensorflow: Plain, tmp_path: Path) -> None:
    """A language model trains, and goes on with texts, as TensorFlow's does, without cuDNN."""
    check_model(Case("lstm-language"), forked, tensorflow, tmp_path)


def test_seeds_that_a_variable_keeps(forked: Runner) -> None:
    """The loop is one op beside the variable, which it leaves as TensorFlow does."""
    plain, done = (forked(PROGRAMS / "seeds_in_loops.py", stitch=stitch) for stitch in ("", "1"))
    assert plain.returncode == done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == json.loads(plain.stdout)
    assert done.report is not None
    assert {loop["reason"] for graph in done.report["graphs"] for loop in graph["loops"]} == {None}


def test_an_iteration_that_fails(forked: Runner) -> None:
    """Is TensorFlow's error, and the next call runs as an op again."""
    plain, done = (forked(PROGRAMS / "slice_outside.py", stitch=stitch, **PRECISE) for stitch in ("", "1"))
    assert plain.returncode == done.returncode == 0, done.stderr[-3000:]
    (said, last), (wanted, values) = json.loads(done.stdout), json.loads(plain.stdout)
    assert said == wanted != ""
    np.testing.assert_allclose(last, values, rtol=1e-6)
    assert done.report is not None
    assert {loop["reason"] for graph in done.report["graphs"] for loop in graph["loops"]} == {None}
    assert sum(fallback["count"] for fallback in done.report["fallbacks"]) == 1
