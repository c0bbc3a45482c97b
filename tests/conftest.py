"""Options and fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

GOLDEN = Path(__file__).parent / "golden"

_CALM = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
settings.register_profile("ci", max_examples=60, derandomize=True, database=None, **_CALM)
settings.register_profile("fuzz", max_examples=int(os.environ.get("FUZZ_EXAMPLES", "1000")), **_CALM)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*.txt anew")


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
