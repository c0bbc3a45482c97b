"""Test files that a change may affect, the nearest first, as many as three minutes have room for: for
`tools/test.sh --affected`.

    python -m tools.affected [BASE]

prints them, one a line. The change is what differs from the commit at which this branch left BASE (main), committed or
not. Near is what takes few steps: from a file to those that import it or name it in a string (programs, data files,
modules that are started), or to the tests below it if it is a conftest.py. The test file of a module's name and tests
that run kernels of all kinds are near, whatever they import; of files that nothing uses so are the tests of the folder
that mirrors theirs. How many are left out is said on stderr; a whole run has them all.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

from tests.support.durations import recorded

ROOT = Path(__file__).parents[1]
WHOLE_TREE = "tests/architecture/"
"""Its tests read all files: they are a step away from each."""
ALL_KINDS = ("tests/differential/test_patterns.py", "tests/differential/test_cuda_on_cpu.py")
"""They run kernels of all kinds: they are two steps away from each file that they use in any way."""
SECONDS = 120.0
"""For each worker, as recorded: with what it takes to begin and to collect, three minutes."""
UNRECORDED = 1.5
"""Seconds of a file that has no record."""
_TEST = re.compile(r"tests/(?:.*/)?test_\w+\.py")
_INCLUDED = re.compile(r'^#include "([^"]+)"', re.M)
_MODULE = re.compile(r"\b(?:tf_stitch|tests|tools|models)(?:\.\w+)+")


class Sources:
    """Which files use which.

    Args:
        files: of the tree, relative to `root`.
    """

    def __init__(self, files: Collection[str], root: Path = ROOT) -> None:
        self._root = root
        self._modules = {file[:-3].replace("/", ".").removesuffix(".__init__"): file
                         for file in files if file.endswith(".py")}
        self._named: defaultdict[str, set[str]] = defaultdict(set)
        for path in map(PurePosixPath, files):
            self._named[path.name].add(str(path))
            if path.match("tests/golden/*.txt"):  # as the fixture `golden` has them
                self._named[path.stem].add(str(path))
        self._natives = [file for file in files if PurePosixPath(file).suffix in (".c", ".cc", ".cu", ".h")]
        self.tests = [file for file in files if _TEST.fullmatch(file)]

    @cached_property
    def _users(self) -> Mapping[str, set[str]]:
        users: defaultdict[str, set[str]] = defaultdict(set)
        for file in self._modules.values():
            for used in self._used(file):
                users[used].add(file)
            if file.endswith("conftest.py"):
                users[file] |= self._below(file.removesuffix("conftest.py"))
        for file in self._natives:
            for name in _INCLUDED.findall((self._root / file).read_text()):
                for used in self._named.get(PurePosixPath(name).name, ()):
                    users[used].add(file)
        return users

    def _used(self, file: str) -> Iterator[str]:
        for node in ast.walk(ast.parse((self._root / file).read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from (self._modules[name] for name in _imported(node, file) if name in self._modules)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from (self._modules[name] for name in _MODULE.findall(node.value) if name in self._modules)
                for word in node.value.split():
                    yield from self._named.get(PurePosixPath(word).name, ())

    def _below(self, folder: str) -> set[str]:
        return {test for test in self.tests if test.startswith(folder)}

    def _mirrors(self, file: str, changed: Collection[str]) -> set[str]:
        """Tests of the folder that mirrors the file's, or the nearest above that has some. A program or test that uses
        what has changed, and that nothing uses, leads no further."""
        if _TEST.fullmatch(file) or (file.endswith(".py") and file not in changed):
            return set()
        inside = PurePosixPath(file.removeprefix("tests/").removeprefix("tf_stitch/"))
        for folder in inside.parents:
            if found := self._below(f"tests/{folder}/") if folder.name else set():
                return found
        return set()

    def steps(self, changed: Collection[str]) -> dict[str, int]:
        """How many steps it takes from a change to each file that steps lead to."""
        steps = dict.fromkeys(changed, 0) | dict.fromkeys(self._below(WHOLE_TREE), 1)
        reached = list(changed)
        for file in reached:
            for user in self._users.get(file, set()) | self._of_name(file) or self._mirrors(file, changed):
                if user not in steps:
                    steps[user] = steps[file] + 1
                    reached.append(user)
        return steps | {test: min(steps[test], 2) for test in ALL_KINDS if test in steps}

    def _of_name(self, file: str) -> set[str]:
        return self._named.get(f"test_{PurePosixPath(file).stem}.py", set())


def _imported(node: ast.Import | ast.ImportFrom, file: str) -> list[str]:
    """Modules that may be meant."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    above = file.split("/")[:-node.level] if node.level else []
    module = ".".join([*above, *([node.module] if node.module else [])])
    return [module, *(f"{module}.{alias.name}" for alias in node.names)]


def nearest(sources: Sources, changed: Collection[str], seconds: Mapping[str, float], budget: float
            ) -> tuple[list[str], list[str]]:
    """Test files that a change may affect: those to run, and those that are left out.

    Args:
        seconds: by test file, where they are known.
        budget: seconds; tests that were changed themselves are run whatever they take.
    """
    steps = sources.steps(changed)
    found = sorted((test for test in sources.tests if test in steps),
                   key=lambda test: (steps[test], seconds.get(test, UNRECORDED), test))
    chosen: list[str] = []
    for test in found:
        budget -= seconds.get(test, UNRECORDED)
        if budget >= 0 or not steps[test]:
            chosen.append(test)
    return chosen, [test for test in found if test not in chosen]


def seconds_on_record() -> dict[str, float]:
    """Wall seconds by test file."""
    return {f"tests/{name}": spent.wall for name, spent in recorded().items()}


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"tools/test.sh --affected [BASE]: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def files_of_tree() -> list[str]:
    """Those that git tracks, or would."""
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard")
    return [file for file in listed if (ROOT / file).is_file()]


def workers_on(processors: int) -> int:
    """How many tools/test.sh has, and had when seconds were recorded."""
    return min(5, processors + 2)


def main(base: str = "main") -> None:
    [left] = _git("merge-base", base, "HEAD")
    changed = {*_git("diff", "--name-only", left), *_git("ls-files", "--others", "--exclude-standard")}
    workers = workers_on(os.cpu_count() or 1)
    chosen, left_out = nearest(Sources(files_of_tree()), changed, seconds_on_record(), SECONDS * workers)
    print(f"{len(changed)} files have changed since {base} ({left[:8]}): the {len(chosen)} nearest test files run, "
          f"{len(left_out)} that are further away do not", file=sys.stderr)
    print("\n".join(chosen))


if __name__ == "__main__":
    main(*sys.argv[1:])
