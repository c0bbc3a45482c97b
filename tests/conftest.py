"""Options and fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.durations import record, recorded, summary

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
_SECONDS: Counter[str] = Counter()
_CALM = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
settings.register_profile("ci", max_examples=60, derandomize=True, database=None, **_CALM)
settings.register_profile("fuzz", max_examples=int(os.environ.get("FUZZ_EXAMPLES", "1000")), **_CALM)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*.txt anew")
    parser.addoption("--exhaustive", action="store_true", help="run what is marked exhaustive, too")
    parser.addoption("--record-durations", action="store_true", help="write tests/durations.txt: of a whole run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked exhaustive is skipped, not deselected: the summary names its file and counts it, as GPU tests."""
    if not config.getoption("--exhaustive"):
        for item in items:
            if item.get_closest_marker("exhaustive") is not None:
                name = item.name.partition("[")[0]
                item.add_marker(pytest.mark.skip(reason=f"{name} is exhaustive: --exhaustive runs all cases"))
    seconds = {TESTS / name: taken for name, taken in recorded().items()}  # the longest begin first: at the end no
    items.sort(key=lambda item: -seconds.get(item.path, 0.0))              # process is left with one of them alone


def pytest_collection_finish() -> None:
    """Collects garbage less often, and never again in what TensorFlow's modules hold: a sixth of the time goes there
    where tests build graphs."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _SECONDS[report.nodeid.partition("::")[0].removeprefix("tests/")] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not _SECONDS:
        return
    terminalreporter.section("seconds of test files")
    for line in summary(_SECONDS, recorded()):
        terminalreporter.write_line(line)
    if config.getoption("--record-durations"):
        record(_SECONDS)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(name, text) compares text with tests/golden/<name>.txt."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run pytest with --update-golden and read the file"
        assert text == path.read_text(), f"{path.name} differs: if that is meant, run pytest with --update-golden"

    return check
