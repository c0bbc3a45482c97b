"""Hand-written persistent kernels: the committed page says what was measured, and a program that fails or hangs is
left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tools.benchmark.raw_rows import page_of, raw_rows, read_rows
from tools.persistent_kernels import decoder, recurrent
from tools.persistent_kernels.page import page
from tools.persistent_kernels.programs import Program, relative_error


@pytest.mark.parametrize(("script", "printed"), [("echo a,1,2", "a,1,2\n"), ("exit 2", None), ("sleep 20", None)])
def test_programs_that_fail_or_hang(tmp_path: Path, script: str, printed: str | None) -> None:
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    assert Program(path, tmp_path).run("check", ["a"], seconds=1.0) == printed


def test_what_was_not_written_is_an_infinite_error() -> None:
    wanted = np.array([3.0, 4.0])
    assert relative_error(np.array([3.0, 4.0], np.float32), wanted) == 0
    assert relative_error(np.array([np.nan, 4.0], np.float32), wanted) == float("inf")


def test_the_committed_page() -> None:
    path = raw_rows("persistent_kernels")
    document = read_rows(path)
    for name, tolerance in (("recurrent", recurrent.TOLERANCE), ("decoder", decoder.TOLERANCE)):
        assert all(row["error"] < tolerance[row["variant"].partition(":")[0]] for row in document[name])
    assert page_of(path).read_text() == page(document)
