"""Runs tests on a copy of the tree, as it is or mutated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.mutants.mutant import Mutant

FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """What tests said.

    Attributes:
        killed_by: the first test that failed; "" if all passed.
        seconds: how long they ran.
        error: they did not run, or the one that failed does without the mutant, too.
    """

    killed_by: str
    seconds: float
    error: str = ""


class Tree:
    """A copy of the files that git knows."""

    def __init__(self, root: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tf_stitch_mutant_")
        self.path = Path(self._folder.name)
        self._sound: dict[str, bool] = {}  # tests that pass here
        names = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], check=True, capture_output=True, text=True)
        for name in filter(None, names.stdout.split("\0")):
            if (root / name).is_file():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self.path / name)

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def try_mutant(self, mutant: Mutant, limit: float) -> Verdict:
        """What the mutant's tests say of it. The file is as before afterwards.

        Raises:
            DoesNotApplyError: the mutant's text is not there.
        """
        file, before = self.path / mutant.file, (self.path / mutant.file).read_text()
        file.write_text(mutant.applied(self.path))
        try:
            return self.run(mutant.tests, limit)
        finally:
            file.write_text(before)

    def checked(self, verdict: Verdict, limit: float) -> Verdict:
        """The verdict, unless the test that failed does so in this tree as it is."""
        if not verdict.killed_by or verdict.killed_by.startswith("("):
            return verdict
        if verdict.killed_by not in self._sound:
            self._sound[verdict.killed_by] = not self.run((verdict.killed_by,), limit).killed_by
        return verdict if self._sound[verdict.killed_by] else replace(verdict, killed_by="", error=(
            f"{verdict.killed_by} fails without the mutant, too"))

    def run(self, tests: Sequence[str], limit: float) -> Verdict:
        """Tests up to the first that fails, in a process of their own; one that takes longer than `limit` seconds
        counts as failing."""
        environment = {**os.environ, "PYTHONPATH": str(self.path), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", *tests]
        start = time.monotonic()
        with subprocess.Popen(command, cwd=self.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, start_new_session=True) as process:
            try:
                said, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.communicate()
                return Verdict("(no end)", time.monotonic() - start)
        seconds = time.monotonic() - start
        failed = FAILED.search(said)
        if failed and process.returncode == 1:
            return Verdict(failed[1], seconds)
        if process.returncode < 0:
            return Verdict("(a crash)", seconds)
        return Verdict("", seconds, "" if process.returncode == 0 else said[-1000:])
