"""Options and fixtures shared by all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.durations import (
    RECORD,
    ProcessorClock,
    Spent,
    caches_are_empty,
    grown,
    not_on_record,
    record,
    recorded,
    summary,
)
from tests.support.fork_server import ForkServer
from tests.support.shared_cache import shared_cache
from tests.support.workers import run_in_workers, tensorflow_has_started
from tf_stitch.config import load_config, plain_environment

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
_SPENT: defaultdict[str, Spent] = defaultdict(Spent)
_CLOCK = ProcessorClock()
os.register_at_fork(after_in_child=_CLOCK.lap)  # which has taken nothing yet
_WITH_EMPTY_CACHES = pytest.StashKey[bool]()
_BUILDING = pytest.StashKey["subprocess.Popen[bytes] | None"]()
_STARTER = pytest.StashKey[str]()
"""The first file behind whose import TensorFlow runs."""
_SERVER = pytest.StashKey[ForkServer]()
"""Of all workers."""
_BUILD = """
from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library

for library in (STITCH_OP, GRAPH_HOOK):
    build_library(library, load_config().cache_dir, portable=True)
"""
"""What many tests would wait for, in the form that serves all of them. If it cannot be built, they say so."""
_CALM = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
settings.register_profile("ci", max_examples=60, derandomize=True, database=None, **_CALM)
settings.register_profile("fuzz", max_examples=int(os.environ.get("FUZZ_EXAMPLES", "1000")), **_CALM)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*.txt anew")
    parser.addoption("--exhaustive", action="store_true", help="run what is marked exhaustive, too")
    parser.addoption("--form", choices=("fallback", "in_turns"), help="what regions of end-to-end tests run: fallback, "
                     "their fallback subgraphs; in_turns, these in every other call")
    parser.addoption("--workers", type=int, default=1, help="processes that run files side by side, forked off one "
                     "that has collected them (where tests use a GPU, -n: CUDA serves no forked process)")
    parser.addoption("--record-durations", action="store_true", help="write tests/durations.txt: of the files that run")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_WITH_EMPTY_CACHES] = caches_are_empty((load_config().cache_dir.expanduser(), shared_cache().folder))
    meanwhile = config.getoption("--workers") > 1  # tests are collected
    config.stash[_BUILDING] = subprocess.Popen([sys.executable, "-c", _BUILD], stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL) if meanwhile else None  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked exhaustive is skipped, not deselected: the summary names its file and counts it, as GPU tests."""
    if not config.getoption("--exhaustive"):
        for item in items:
            if item.get_closest_marker("exhaustive") is not None:
                name = item.name.partition("[")[0]
                item.add_marker(pytest.mark.skip(reason=f"{name} is exhaustive: --exhaustive runs all cases"))
    seconds = {TESTS / name: spent.wall for name, spent in recorded().items()}  # the longest begin first: at the end no
    items.sort(key=lambda item: -seconds.get(item.path, 0.0))              # process is left with one of them alone


def pytest_itemcollected(item: pytest.Item) -> None:
    if tensorflow_has_started():
        item.config.stash.setdefault(_STARTER, item.nodeid.partition("::")[0])


def pytest_collection_finish() -> None:
    """Collects garbage less often, and never again in what TensorFlow's modules hold: a sixth of the time goes there
    where tests build graphs."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    _CLOCK.lap()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """None: pytest's own loop runs tests one by one, or says what could not be collected."""
    building = session.config.stash[_BUILDING]
    if building is None or session.testsfailed or session.config.option.collectonly:
        return None
    with contextlib.ExitStack() as stack:
        if any("fork_server" in getattr(item, "fixturenames", ()) for item in session.items):
            importlib.import_module("keras")  # sets variables, which programs have to find where they start
            session.config.stash[_SERVER] = stack.enter_context(_forking(session.config._tmp_path_factory))
        building.wait()
        run_in_workers(session, session.config.getoption("--workers"), session.config.stash.get(_STARTER, None))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In the process that runs the tests; the report goes to the one that counts."""
    report = yield
    lap = _CLOCK.lap()
    report.processor_seconds = 0.0 if item.get_closest_marker("of_today") else lap
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    file = report.nodeid.partition("::")[0].removeprefix("tests/")
    processor = getattr(report, "processor_seconds", 0.0)  # of a worker that has died nobody knows
    _SPENT[file] += Spent(report.duration, processor)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A whole run fails for files that have grown."""
    if exitstatus == pytest.ExitCode.OK and _grown(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_worker(config: pytest.Config) -> bool:
    """Of pytest-xdist: another process counts for all."""
    return hasattr(config, "workerinput")


def _grown(config: pytest.Config) -> list[str]:
    """Only of a whole run: in others, the first file of a kind pays for what all of the kind need."""
    before = recorded()
    part = (_is_worker(config) or not _is_whole(config) or _has_parts_of_files(config)
            or config.option.record_durations)
    return [] if part or not before.keys() <= _SPENT.keys() else grown(_SPENT, before)


def _is_whole(config: pytest.Config) -> bool:
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


def _has_parts_of_files(config: pytest.Config) -> bool:
    """Or more than each commit runs."""
    option = config.option
    return bool(option.keyword or option.markexpr or option.exhaustive or any("::" in name for name in config.args))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not _SPENT or _is_worker(config):
        return
    terminalreporter.section("seconds of test files")
    for line in summary(_SPENT, recorded()):
        terminalreporter.write_line(line)
    for line in _grown(config):
        terminalreporter.write_line(f"FAILED {line}", red=True)
    if config.stash[_WITH_EMPTY_CACHES] and _is_whole(config) and not _has_parts_of_files(config):
        if lines := not_on_record(_SPENT, recorded()):
            terminalreporter.write_line(f"not on record, lines for {RECORD.relative_to(TESTS.parent)}:")
        for line in lines:
            terminalreporter.write_line(line)
    if config.getoption("--record-durations"):
        if not config.stash[_WITH_EMPTY_CACHES]:
            terminalreporter.write_line("not recorded: a run with empty caches takes longer. Set XDG_CACHE_HOME to a "
                                        "new folder", red=True)
        elif _has_parts_of_files(config):
            terminalreporter.write_line("not recorded: whole files are", red=True)
        else:
            record(_SPENT, {} if _is_whole(config) else recorded())


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


@pytest.fixture(scope="session")
def fork_server(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """One for all tests and workers: what it imports takes as long as what many programs do."""
    common = pytestconfig.stash.get(_SERVER, None)
    with contextlib.nullcontext(common) if common else _forking(tmp_path_factory) as server:
        yield server


@contextlib.contextmanager
def _forking(folders: pytest.TempPathFactory) -> Iterator[ForkServer]:
    path = os.pathsep.join(filter(None, [str(TESTS.parent), os.environ.get("PYTHONPATH")]))
    server = ForkServer(folders.mktemp("server"), plain_environment() | {"PYTHONPATH": path})
    try:
        yield server
    finally:
        server.close()
