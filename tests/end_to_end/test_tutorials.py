"""The tutorials, followed in one copy of the tree: files are made and edited as pages say, and their tests pass. No two
pages touch the same file, so that none can hide what another leaves out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.conftest import ROOT

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
THERE = {"first_op": {"tests/differential/test_every_op.py": "ApproximateEqual"}}
"""Tests that were there before and that a page adds a case to, with what selects it."""
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


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """In the copy, whose tf_stitch comes before the one that is installed."""
    return subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, text=True,
                          capture_output=True, timeout=250)


def check(root: Path, *command: str) -> None:
    done = run(root, *command)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@dataclass(frozen=True)
class Copy:
    """A tree in which all pages were followed.

    Attributes:
        made: new files, by page.
        said: what pytest said of the pages' tests, a line for each that passed.
    """

    root: Path
    made: dict[str, list[str]]
    said: str


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    root = tmp_path_factory.mktemp("tree")
    for name in ("tf_stitch", "tests", "tools"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    made = {page.stem: follow(page.read_text(), root) for page in PAGES}
    names = [*THERE["first_op"].values(), *(Path(test).stem for files in made.values() for test in new_tests(files))]
    files = [*THERE["first_op"], *(test for files in made.values() for test in new_tests(files))]
    done = run(root, sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *files,
               "-k", " or ".join(names))
    return Copy(root, made, done.stdout + done.stderr)


def new_tests(made: list[str]) -> list[str]:
    return [name for name in made if name.startswith("tests/")]


def test_no_page_touches_what_another_does() -> None:
    touched = [file for page in PAGES for file in set(PYTHON_FILE.findall(page.read_text()))]
    assert len(touched) == len(set(touched))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_can_be_followed(page: Path, copy: Copy) -> None:
    made = copy.made[page.stem]
    assert made
    if any(name.endswith(".cc") for name in made):  # building the native op takes minutes
        import tensorflow as tf

        check(copy.root, sys.executable, "-m", "tf_stitch.native.executable_header")
        check(copy.root, "g++", "-fsyntax-only", "-w", *tf.sysconfig.get_compile_flags(), "-Itf_stitch/native",
              *(name for name in made if name.endswith(".cc")))
    for test, case in {**dict.fromkeys(new_tests(made), ""), **THERE.get(page.stem, {})}.items():
        of_test = [line for line in copy.said.splitlines() if re.match(rf"[A-Z]+ {re.escape(test)}.*{case}", line)]
        assert of_test, copy.said[-3000:]
        assert all(line.startswith("PASSED") for line in of_test), copy.said[-3000:]
    sources = PYTHON_FILE.findall(page.read_text())
    check(copy.root, sys.executable, "-m", "ruff", "check", "-q", *sources, "tf_stitch")
