"""Files of measured rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.benchmark.raw_rows import RAW, command_line, page_of, read_rows, stem, write_rows

A_PERSONS_PATH = re.compile(r"(?:--\w+=|[ \"])/(?:home|root|work|tmp/\w+/|Users)\b")


@pytest.mark.parametrize("name", ["rows.json", "raw/rows.json.gz"])
def test_rows_come_back_and_are_the_same_bytes_again(tmp_path: Path, name: str) -> None:
    rows = [{"model": "bert", "us": 1.5}]
    write_rows(tmp_path / name, rows)
    first = (tmp_path / name).read_bytes()
    assert read_rows(tmp_path / name) == rows
    write_rows(tmp_path / name, rows)
    assert (tmp_path / name).read_bytes() == first
    assert page_of(tmp_path / name) == tmp_path / "rows.md"


def test_a_command_has_no_path_of_the_machine() -> None:
    said = command_line(["/home/me/tf_stitch/tools/tune.py", "--out=/tmp/me/x.json", "--grid", "--cache", "/tmp/c"])
    assert said == "python -m tools.tune --grid"


@pytest.mark.parametrize("page", sorted(RAW.parent.glob("*.md")), ids=stem)
def test_pages_name_commands_that_can_be_given(page: Path) -> None:
    text = page.read_text()
    assert re.findall(r"python tools/\S*", text) == []
    for script in re.findall(r"`tools/([\w.]+)(?: [^`]*)?`", text):
        assert script.endswith(".sh"), f"python -m tools.{script.removesuffix('.py')}"
        assert (RAW.parents[1] / "tools" / script).exists(), script
    for module in re.findall(r"python -m (tools[\w.]*)", text):
        path = RAW.parents[1] / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


@pytest.mark.parametrize("path", sorted(RAW.glob("*.json.gz")), ids=stem)
def test_committed_rows_name_no_persons_path(path: Path) -> None:
    assert A_PERSONS_PATH.findall(str(read_rows(path))) == []
    page = page_of(path)
    assert not page.exists() or A_PERSONS_PATH.findall(page.read_text()) == []
