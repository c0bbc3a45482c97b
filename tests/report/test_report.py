"""Where reports and dumps go, when others may write there, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_stitch.report.dump import Dump
from tf_stitch.report.report import EARLIER, REPORT, SOURCES, set_aside, write_report


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """What links of others name."""
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "file").write_text("precious")
    return folder


def check(precious: Path) -> None:
    assert [(path.name, path.read_text()) for path in precious.iterdir()] == [("file", "precious")]


def test_a_report_is_written_in_place_of_links(tmp_path: Path, precious: Path) -> None:
    folder = tmp_path / "report"
    (folder / SOURCES).mkdir(parents=True)
    for name in (REPORT, f"{SOURCES}/0.c"):
        (folder / name).symlink_to(precious / "file")
    assert write_report({"a": 1}, folder, {"0.c": "source"}) == folder / REPORT
    assert (folder / SOURCES / "0.c").read_text() == "source"
    assert not (folder / REPORT).is_symlink()
    check(precious)


@pytest.mark.parametrize("name", [SOURCES, EARLIER])
def test_a_folder_in_it_that_is_a_link(tmp_path: Path, precious: Path, name: str) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / REPORT).write_text("{}")
    (folder / name).symlink_to(precious)
    with pytest.raises(OSError, match=name):
        set_aside(folder) if name == EARLIER else write_report({}, folder, {"file": "source"})
    check(precious)


def test_a_dump_is_written_in_place_of_links(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "graph.txt").symlink_to(precious / "file")
    Dump(tmp_path / "dump").write("graph.txt", "graph")
    assert (tmp_path / "dump" / "graph.txt").read_text() == "graph"
    check(precious)
