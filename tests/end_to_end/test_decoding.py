"""Loops that decode: the same tokens as TensorFlow's, and bodies that the cache does not cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner

PROGRAM = PROGRAMS / "decoding.py"


def tokens(text: str) -> Any:
    found = json.loads(text)
    assert all(first == second and len({len(row) for row in first}) == 1 for first, second in found.values())
    return found


@pytest.mark.parametrize("environment", [{}, {"TF_STITCH_LOOP_OP": "0"}, {"TF_STITCH_WRAP": "py_function"}],
                         ids=["loop as an op", "loop left alone", "in Python"])
@pytest.mark.parametrize("batch", [1, 3])
def test_tokens(batch: int, environment: dict[str, str], run: Runner) -> None:
    plain = run(PROGRAM, batch, stitch="")
    assert plain.returncode == 0, plain.stderr[-3000:]
    done = run(PROGRAM, batch, **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert tokens(done.stdout) == tokens(plain.stdout)
    if not environment:
        greedy = next(graph for graph in done.report["graphs"] if graph["regions"])
        assert not greedy["left_out"]
        assert [loop["reason"] for loop in greedy["loops"]] == [None]
