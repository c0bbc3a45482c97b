"""Folders that nobody else writes into."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tf_stitch.private_folder import make_private, temporary_folder


def test_a_new_folder(tmp_path: Path) -> None:
    assert make_private(tmp_path / "a" / "b").problem == ""
    assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0
    assert not list((tmp_path / "a" / "b").iterdir())


def test_what_others_can_write_is_not_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    access = make_private(tmp_path)
    assert not access.reading
    assert "other users" in access.problem


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
