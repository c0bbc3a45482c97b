"""What plain TensorFlow gives is run once, and again when what it depends on has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import plain_results
from tests.support.plain_results import plain_result
from tests.support.shared_cache import shared_cache


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TF_STITCH_TEST_CACHE", str(tmp_path / "cache"))
    shared_cache.cache_clear()
    yield
    shared_cache.cache_clear()


def test_it_is_run_again_when_something_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0
    program = tmp_path / "program.py"
    program.write_text("import models\n")

    def result(*arguments: object, **variables: str) -> bytes:
        def run() -> bytes:
            nonlocal runs
            runs += 1
            return b"%d" % runs

        return plain_result(program, arguments, variables, run)

    assert [result(), result(), result(1), result(1), result()] == [b"1", b"1", b"2", b"2", b"1"]
    assert [result(X="1"), result(X="1"), result(X="2")] == [b"3", b"3", b"4"]
    program.write_text("import numpy\n")
    assert result() == b"5"
    monkeypatch.setattr(plain_results, "_surroundings", lambda: "another machine")
    assert result() == b"6"


def test_what_fails_is_not_kept(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("")

    def fails() -> bytes:
        raise AssertionError("it ended with 1")

    with pytest.raises(AssertionError, match="ended with 1"):
        plain_result(program, (), {}, fails)
    assert plain_result(program, (), {}, lambda: b"well") == b"well"


@pytest.mark.parametrize("imports", ["from tools.benchmark.region_cases import encoder\n", "import tf_stitch\n",
                                     "def f():\n    from tests.graph import graphs\n"])
def test_a_program_whose_changes_would_not_be_seen_is_refused(tmp_path: Path, imports: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(imports)
    with pytest.raises(AssertionError, match=r"program\.py imports \{'t"):
        plain_result(program, (), {}, bytes)
