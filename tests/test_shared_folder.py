"""Folders that others may write into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tf_stitch.shared_folder import opened


def test_it_is_made_and_stays_the_same_folder(tmp_path: Path) -> None:
    with opened(tmp_path / "a" / "b", links=True) as place:
        (tmp_path / "a" / "b").rename(tmp_path / "moved")
        (tmp_path / "a" / "b").symlink_to(tmp_path)
        (place / "file").write_text("x")
    assert os.listdir(tmp_path / "moved") == ["file"]


def test_links_only_where_the_user_named_them(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    with opened(tmp_path / "link" / "inner", links=True) as place:
        (place / "file").write_text("x")
    assert (tmp_path / "there" / "inner" / "file").exists()
    with pytest.raises(OSError, match="link"), opened(tmp_path / "link"):
        pass


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to give a link away")
def test_a_link_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "theirs").symlink_to("there")
    os.lchown(tmp_path / "theirs", 4712, -1)
    (tmp_path / "ours").symlink_to(tmp_path / "theirs")
    for path in ("theirs", "theirs/inner", "ours/inner"):
        with pytest.raises(PermissionError, match="link of another user"), opened(tmp_path / path, links=True):
            pass
    assert not list((tmp_path / "there").iterdir())


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"), opened(tmp_path / "a", links=True):
        pass
