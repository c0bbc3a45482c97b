"""Options and fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
LONG = ("end_to_end/test_networks.py", "differential/test_every_op.py", "end_to_end/test_empty_loops.py",
        "golden/test_zoo_plans.py", "end_to_end/test_models.py", "emit/test_matmul.py",
        "end_to_end/test_model_variants.py", "differential/test_sized_patterns.py", "plugin/test_activation.py",
        "end_to_end/test_given_back.py", "end_to_end/test_loops.py", "end_to_end/test_activation_cases.py",
        "end_to_end/test_scripts.py", "differential/test_cuda_on_cpu.py", "end_to_end/test_interrupts.py",
        "tools/test_fuzz.py", "convert/test_attaching.py", "runtime/test_buffer_plan.py",
        "graph/loops/test_native_loops.py", "test_api.py", "end_to_end/test_faults.py", "cli/test_commands.py",
        "native/test_callers_executor.py")
"""Files of half a minute and more, longest first. They begin first: at the end no process is left with one of them
while the others have nothing to do."""

_CALM = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
settings.register_profile("ci", max_examples=60, derandomize=True, database=None, **_CALM)
settings.register_profile("fuzz", max_examples=int(os.environ.get("FUZZ_EXAMPLES", "1000")), **_CALM)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*.txt anew")
    parser.addoption("--exhaustive", action="store_true", help="run what is marked exhaustive, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked exhaustive is skipped, not deselected: the summary names its file and counts it, as GPU tests."""
    if not config.getoption("--exhaustive"):
        for item in items:
            if item.get_closest_marker("exhaustive") is not None:
                name = item.name.partition("[")[0]
                item.add_marker(pytest.mark.skip(reason=f"{name} is exhaustive: --exhaustive runs all cases"))
    place = {TESTS / name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))


def pytest_collection_finish() -> None:
    """Collects garbage less often, and never again in what TensorFlow's modules hold: a sixth of the time goes there
    where tests build graphs."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


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
