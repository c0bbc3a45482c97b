"""A pytest plugin that writes what becomes of each test as it happens, and leaves out tests of which that is known."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

_MOST_TEXT = 3000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, help="folder; a file a test file: JSON lines of tests that begin and end")
    parser.addoption("--ended", type=Path, help="file to make when the session has ended by itself")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Recorder(config.getoption("--outcomes"), config.getoption("--ended")))


def outcomes_of(folder: Path, test: str) -> Path:
    """Where the outcomes of a file's tests are; `test` is the file, or a test in it."""
    return folder / (re.sub(r"\W", "_", test.partition("::")[0]) + ".jsonl")


class _Recorder:
    def __init__(self, folder: Path, ended: Path) -> None:
        self._folder, self._ended = folder, ended

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        paths = {outcomes_of(self._folder, item.nodeid) for item in items}
        lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
        begun = {json.loads(line)["test"] for line in lines}
        items[:] = [item for item in items if item.nodeid not in begun]

    def pytest_sessionfinish(self) -> None:
        self._ended.touch()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            said = str(report.longrepr)[-_MOST_TEXT:] if report.failed else ""
            self._write(test=report.nodeid, outcome=report.outcome, seconds=round(report.duration, 3), said=said)

    def _write(self, test: str, **line: Any) -> None:
        with outcomes_of(self._folder, test).open("a") as file:
            file.write(json.dumps({"test": test, **line}) + "\n")
