"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tf_stitch.atomic_file import write_atomically


def test_replaces_what_was_there(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old")
    write_atomically(tmp_path / "file", b"new", 0o644)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_failure_leaves_the_old_file_and_no_part_of_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                                  ) -> None:
    write_atomically(tmp_path / "file", b"old")

    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
