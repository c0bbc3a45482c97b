"""Folders that nobody else writes into."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tf_stitch.private_folder import Access, check_own, make_private, open_lock, temporary_folder


def test_a_new_folder(tmp_path: Path) -> None:
    assert make_private(tmp_path / "a" / "b").problem == ""
    assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0
    assert not list((tmp_path / "a" / "b").iterdir())


def test_what_others_can_write_is_not_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    access = make_private(tmp_path)
    assert not access.reading
    assert "other users" in access.problem


def test_nobody_else_may_put_another_folder_in_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "open" / "mine" / "cache"
    folder.mkdir(parents=True, mode=0o700)
    (tmp_path / "open").chmod(0o777)
    access = make_private(folder)
    assert not access.reading
    assert access.problem == f"its parent {tmp_path / 'open'} can be written by other users"
    (tmp_path / "open").chmod(0o1777)
    assert make_private(folder) == Access(True, ""), "as /tmp: others cannot rename what is not theirs"


def test_a_parent_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "theirs" / "cache"
    make_private(folder)
    if os.getuid() != 0:
        pytest.skip("needs root to give a folder away")
    os.chown(tmp_path / "theirs", 4712, -1)
    access = make_private(folder)
    assert not access.reading
    assert access.problem == f"its parent {tmp_path / 'theirs'} belongs to another user"


def test_a_link_is_followed_to_where_the_folder_is(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    assert "open can be written by other users" in make_private(tmp_path / "link" / "cache").problem


def test_parents_are_made_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert make_private(tmp_path / "a" / "b") == Access(True, "")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "folder"):
        access = make_private(folder)
        assert not access.reading
        assert access.problem


def test_temporary_folders_go_with_their_process() -> None:
    program = ("import os\nfrom tf_stitch.private_folder import temporary_folder as t\n"
               "assert t('a') == t('a') != t('b')\nprint(t('a'), t('b'), flush=True)\n"
               "if os.fork() == 0: raise SystemExit\n_, status = os.wait(); assert status == 0 and t('a').exists()\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) == 2
    assert not any(map(os.path.exists, done.stdout.split()))
    assert temporary_folder("kernels").exists()


def test_a_lock_is_made_and_found_and_nothing_in_it_is_changed(tmp_path: Path) -> None:
    open_lock(tmp_path / "lock").close()
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    (tmp_path / "lock").write_text("content")
    with open_lock(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == "content"


@pytest.mark.parametrize("what", ["a link", "a link to nothing", "a second name", "a pipe", "a folder"])
def test_a_lock_is_a_file_of_this_user_alone(tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_text("precious")
    lock = tmp_path / "lock"
    {"a link": lambda: lock.symlink_to("file"), "a link to nothing": lambda: lock.symlink_to("nothing"),
     "a second name": lambda: lock.hardlink_to(tmp_path / "file"), "a pipe": lambda: os.mkfifo(lock),
     "a folder": lock.mkdir}[what]()
    with pytest.raises(OSError, match="lock"):
        open_lock(lock)
    assert (tmp_path / "file").read_text() == "precious"
    assert not (tmp_path / "nothing").exists()


def test_whose_a_folder_is(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("own")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    check_own(tmp_path / "own")
    for name in ("link", "open", "missing"):
        with pytest.raises(OSError, match=name):
            check_own(tmp_path / name)
