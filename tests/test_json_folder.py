"""Documents that processes share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_stitch.atomic_file import write_verified
from tf_stitch.errors import DamagedFileError
from tf_stitch.json_folder import JsonFolder


def test_what_was_written_is_read(tmp_path: Path) -> None:
    JsonFolder(tmp_path / "new").write("a", {"b": [1.5]})
    assert JsonFolder(tmp_path / "new").read("a") == {"b": [1.5]}
    assert JsonFolder(tmp_path / "new").read("b") is None


def test_what_was_not_written_so_is_named(tmp_path: Path) -> None:
    folder = JsonFolder(tmp_path)
    folder.write("a", 1)
    folder.path("a").write_bytes(folder.path("a").read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(DamagedFileError, match=r"a\.json"):
        folder.read("a")
    write_verified(folder.path("a"), b"{")
    with pytest.raises(DamagedFileError, match=r"a\.json"):
        folder.read("a")
