"""What is said of the seconds that test files take."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import durations
from tests.support.durations import (
    ProcessorClock,
    Spent,
    caches_are_empty,
    grown,
    not_on_record,
    record,
    recorded,
    summary,
)


def test_what_was_recorded_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "RECORD", tmp_path / "durations.txt")
    record({"a/test_short.py": Spent(3.9, 3.9), "a/test_long.py": Spent(12.34, 3.0), "b/test_longer.py": Spent(40, 50)},
           others={})
    assert list(recorded().items()) == [("b/test_longer.py", Spent(40, 50)), ("a/test_long.py", Spent(12.3, 3.0))]


def test_processor_seconds_may_be_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "RECORD", tmp_path / "durations.txt")
    durations.RECORD.write_text("40.0 - a\n")
    spent = {"a": Spent(50.0, 500.0), "new": Spent(20.0, 20.0)}
    assert grown(spent, recorded()) == []
    durations.RECORD.write_text("40.0 - a\n20.0 20.0 b\n")
    assert [line.split()[0] for line in grown(spent | {"b": Spent(20.0, 20.0)}, recorded())] == ["new"]


def test_caches_are_empty_until_something_is_kept(tmp_path: Path) -> None:
    assert caches_are_empty([tmp_path / "none"])
    (tmp_path / "native").mkdir()
    assert caches_are_empty([tmp_path])
    (tmp_path / "kernel.so").write_text("")
    assert not caches_are_empty([tmp_path / "none", tmp_path])


def test_the_slowest_files_stand_beside_the_record() -> None:
    lines = summary({"new": Spent(20, 1), "old": Spent(30, 20)}, {"old": Spent(10, 5), "not run": Spent(5, 5)})
    assert lines == ["50 s (21 of a processor) of 2 files on all workers; on record 10 s (5 of a processor)",
                     "30 s (20 of a processor), on record 10 s (5 of a processor): old",
                     "20 s (1 of a processor), on record nothing: new"]


def test_lines_for_the_record_are_of_files_that_it_knows_nothing_of() -> None:
    spent = {"new": Spent(20, 1), "unknown": Spent(30, 20), "known": Spent(50, 40), "short": Spent(3, 3),
             "of today": Spent(60, 0)}
    assert not_on_record(spent, {"unknown": Spent(30, 0), "known": Spent(40, 40)}) == ["30.0 20.0 unknown",
                                                                                       "20.0 1.0 new"]


LETTERS = "abcefghij"
BEFORE = {name: Spent(1.0, 100.0) for name in LETTERS} | {"d": Spent(1.0, 20.0)}


@pytest.mark.parametrize(("changed", "reported"), [
    ({}, []), ({"a": 119}, []), ({"a": 121}, ["a"]),
    ({"d": 29}, []), ({"d": 31}, ["d"]),  # a fifth more is less than ten seconds more
    ({"new": 13}, []), ({"new": 15}, ["new"]),
    (dict.fromkeys(LETTERS, 60), []),  # a fast machine
    (dict.fromkeys(LETTERS, 60) | {"a": 119}, []), (dict.fromkeys(LETTERS, 60) | {"a": 121}, ["a"]),
    (dict.fromkeys(LETTERS, 200) | {"a": 230}, []),  # a slow machine, and what grew on it
    (dict.fromkeys(LETTERS, 200) | {"a": 250}, ["a"]),
    (dict.fromkeys(LETTERS, 200) | {"b": 30, "c": 30, "e": 30, "a": 230}, []),  # with what caches hold
])  # fmt: skip
def test_a_file_has_grown_by_a_fifth_and_ten_seconds(changed: dict[str, float], reported: list[str]) -> None:
    spent = BEFORE | {name: Spent(0.5, seconds) for name, seconds in changed.items()}
    assert [line.split()[0] for line in grown(spent, BEFORE)] == reported


def test_the_line_to_put_on_record_is_said_and_is_enough() -> None:
    spent = BEFORE | {"a": Spent(170.0, 150.0)}
    [line] = grown(spent, BEFORE)
    assert line.endswith("put this line into tests/durations.txt: 170.0 150.0 a")
    assert grown(spent, BEFORE | {"a": Spent(170.0, 150.0)}) == []


def test_processor_seconds_are_those_of_this_process_and_its_children() -> None:
    burn = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
    clock = ProcessorClock()
    time.sleep(0.5)
    assert clock.lap() < 0.3
    exec(burn, {})
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert clock.lap() > 0.7
    assert clock.lap() < 0.3


BURNS = """
import time

def test():
    end = time.process_time() + 0.5
    while time.process_time() < end: pass
"""


def run_pytest(root: Path, program: str, before: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A tree with one test file and this conftest.py, for which a fifth of a second more has grown, and two fifths are
    enough to be recorded."""
    tests = Path(__file__).parents[1]
    for name in ("__init__.py", "conftest.py", "support/__init__.py", "support/durations.py", "support/fork_server.py",
                 "support/shared_cache.py", "support/workers.py"):
        (root / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        text = (tests / name).read_text()
        for whole, small in (("MARGIN = 1.2, 10.0", "MARGIN = 1.2, 0.2"), ("LEAST = 4.0", "LEAST = 0.4"),
                             ("    build_library(", "    print(")):
            text = text.replace(whole, small)
        (root / "tests" / name).write_text(text)
    (root / "tests" / "test_burns.py").write_text(program)
    (root / "tests" / "durations.txt").write_text(before + "\n")
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\ntestpaths = ['tests']\n")
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments], cwd=root,
                          capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize(("arguments", "before", "code"), [
    ([], "0.5 0.1 test_burns.py", 1), (["-n1"], "0.5 0.1 test_burns.py", 1),
    (["--workers=2"], "0.5 0.1 test_burns.py", 1), ([], "0.5 0.6 test_burns.py", 0),
    ([], "0.5 0.1 test_burns.py\n1.0 1.0 test_of_another_part.py", 0), (["-k", "test"], "0.5 0.1 test_burns.py", 0),
    (["tests/test_burns.py"], "0.5 0.1 test_burns.py", 0)])
def test_a_whole_run_fails_for_a_file_that_grew(tmp_path: Path, arguments: list[str], before: str, code: int) -> None:
    done = run_pytest(tmp_path, BURNS, before, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("FAILED test_burns.py took" in done.stdout) == (code == 1)


def test_what_is_recorded_is_of_all_workers_and_empty_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sleeps = "import time\n\ndef test():\n    time.sleep(0.5)\n"
    done = run_pytest(tmp_path, sleeps, "9.0 - test_burns.py", "-n1", "--record-durations")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on record 9 s" in done.stdout
    seconds, processor, name = (tmp_path / "tests" / "durations.txt").read_text().split()
    assert 0.5 <= float(seconds) < 9
    assert float(processor) < 0.5
    assert name == "test_burns.py"
    (tmp_path / "cache" / "tf_stitch_tests" / "kernel.so").write_text("")
    done = run_pytest(tmp_path, sleeps, "9.0 - test_burns.py", "-n1", "--record-durations")
    assert "not recorded" in done.stdout
    assert (tmp_path / "tests" / "durations.txt").read_text() == "9.0 - test_burns.py\n"


def test_files_are_recorded_beside_those_that_have_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = "7.0 - test_other.py\n4.5 - test_burns.py"
    done = run_pytest(tmp_path, BURNS, before, "--record-durations", "tests/test_burns.py::test")
    assert "not recorded: whole files are" in done.stdout
    assert (tmp_path / "tests" / "durations.txt").read_text() == before + "\n"
    done = run_pytest(tmp_path, BURNS, before, "--record-durations", "tests/test_burns.py")
    assert done.returncode == 0, done.stdout + done.stderr
    other, (wall, processor, name) = map(str.split, (tmp_path / "tests" / "durations.txt").read_text().splitlines())
    assert other == ["7.0", "-", "test_other.py"]
    assert name == "test_burns.py"
    assert 0.5 <= float(wall) <= 4.5, "a busy machine's waits are not the file's"
    assert 0.5 <= float(processor) < 2


def test_a_whole_run_with_empty_caches_says_what_the_record_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                                  ) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for arguments, said in (([], True), (["tests/test_burns.py"], False)):
        lines = run_pytest(tmp_path, BURNS, "9.0 - test_burns.py", *arguments).stdout.splitlines()
        assert ("not on record, lines for tests/durations.txt:" in lines) == said
        assert any(line.split()[2:] == ["test_burns.py"] for line in lines) == said


def test_a_worker_that_dies_is_no_error_of_the_record(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "import os\n\ndef test():\n    os._exit(3)\n", "0.5 0.1 test_burns.py", "-n1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout + done.stderr
