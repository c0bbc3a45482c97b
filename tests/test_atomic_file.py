"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tf_stitch.atomic_file import read_verified, write_atomically, write_verified
from tf_stitch.errors import DamagedFileError


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


def test_content_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for name in ("fsync", "replace"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, call=call: (done.append(name), call(*args)))
    write_atomically(tmp_path / "file", b"content")
    assert done == ["fsync", "replace"]


@pytest.mark.parametrize("content", [b"", b"text", b"text\n", b"#sha256 0\n", bytes(range(256))])
def test_what_is_written_is_read(tmp_path: Path, content: bytes) -> None:
    write_verified(tmp_path / "file", content)
    assert read_verified(tmp_path / "file") == content
    write_verified(tmp_path / "again", (tmp_path / "file").read_bytes())
    assert read_verified(tmp_path / "again") == (tmp_path / "file").read_bytes()


def test_every_cut_and_every_changed_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_verified(path, b"the content")
    whole = path.read_bytes()
    damaged = [whole[:n] for n in range(len(whole))] + [whole + b"x"]
    damaged += [whole[:n] + bytes([whole[n] ^ 1 << bit]) + whole[n + 1:] for n in range(len(whole)) for bit in range(8)]
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(DamagedFileError, match="file"):
            read_verified(path)


def test_a_file_by_hand_needs_no_digest_but_may_not_have_a_wrong_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"by hand\n")
    assert read_verified(path, digest_required=False) == b"by hand\n"
    write_verified(path, b"by a tool\n")
    path.write_bytes(path.read_bytes().replace(b"tool", b"hand"))
    with pytest.raises(DamagedFileError, match="digest"):
        read_verified(path, digest_required=False)
