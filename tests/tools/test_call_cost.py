"""What calls of functions cost, by their variables."""

from __future__ import annotations

import re

import pytest

from tools import call_cost


def test_lines() -> None:
    times = {"TensorFlow": [9.0, 8.0, 10.0], "arguments": [4.0, 6.0, 5.0], "held": [2.0, 2.0, 2.0]}
    shown = list(call_cost.lines([("10", "infer", times)]))
    assert len({line.count("|") for line in shown}) == 1
    assert shown[-1] == "| 10 | infer | 9 (8 to 10) | 5 (4 to 6) | 2 (2 to 2) | 2.50 |"


def test_all_forms_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("_VARIABLES", ["12"]), ("_MODES", ["train"]), ("_CALL_TURNS", 1), ("_TURN_CALLS", 2)):
        monkeypatch.setattr(call_cost, name, type("Flag", (), {"value": value}))
    call_cost.main([])
    assert re.search(r"\| 12 \| train( \| \d+ \(\d+ to \d+\)){3} \| \d+\.\d+ \|", capsys.readouterr().out)
