"""The tutorials, followed in a copy of the tree: files are made and edited as pages say, and their tests pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.conftest import ROOT

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
QUICK = {"first_op": ["tests/differential/test_every_op.py", "-k", "has_a_case and ApproximateEqual"]}
"""In the place of the tests that a page makes: first_op has cases for a test that is there, and which takes minutes."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
NEW_FILE = re.compile(r"(?:#|//) ([\w/.]+)\n")
PYTHON_FILE = re.compile(r"^(?:#|---) ([\w/.]+\.py)$", re.M)
"""A new file, or one that is edited."""


def follow(page: str, root: Path) -> list[str]:
    """Makes and edits files as a page says; the new ones."""
    made: list[str] = []
    for language, text in BLOCK.findall(page):
        found = NEW_FILE.match(text)
        if language == "diff":
            for part in re.split(r"^--- ", text, flags=re.M)[1:]:
                name, lines = part.split("\n", 1)
                edit(root / name, lines.splitlines())
        elif found:
            (root / found[1]).write_text(text[found.end():])
            made.append(found[1])
    return made


def edit(path: Path, lines: list[str]) -> None:
    before, after = ("".join(line[1:] + "\n" for line in lines if not line.startswith(other)) for other in "+-")
    text = path.read_text()
    assert text.count(before) == 1, f"{path.name} has no such place, or several:\n{before}"
    path.write_text(text.replace(before, after))


def run(root: Path, *command: str) -> None:
    """In the copy, whose tf_stitch comes before the one that is installed."""
    done = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, text=True,
                          capture_output=True, timeout=250)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_can_be_followed(page: Path, tmp_path: Path) -> None:
    for name in ("tf_stitch", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    made = follow(page.read_text(), tmp_path)
    assert made
    if any(name.endswith(".cc") for name in made):  # building the native op takes minutes
        import tensorflow as tf

        run(tmp_path, sys.executable, "-m", "tf_stitch.native.executable_header")
        run(tmp_path, "g++", "-fsyntax-only", "-w", *tf.sysconfig.get_compile_flags(), "-Itf_stitch/native",
            *(name for name in made if name.endswith(".cc")))
    tests = [name for name in made if name.startswith("tests/")]
    run(tmp_path, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *QUICK.get(page.stem, tests))
    sources = PYTHON_FILE.findall(page.read_text())
    run(tmp_path, sys.executable, "-m", "ruff", "check", "-q", *sources, "tf_stitch")
