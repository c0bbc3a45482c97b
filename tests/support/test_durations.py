"""What is said of the seconds that test files take."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support import durations
from tests.support.durations import record, recorded, summary


def test_what_was_recorded_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "RECORD", tmp_path / "durations.txt")
    record({"a/test_short.py": 3.9, "a/test_long.py": 12.34, "b/test_longer.py": 40.0})
    assert list(recorded().items()) == [("b/test_longer.py", 40.0), ("a/test_long.py", 12.3)]


def test_the_slowest_files_stand_beside_the_record() -> None:
    lines = summary(Counter({"new": 30.0, "old": 20.0}), {"old": 10.0, "not run": 5.0})
    assert lines == ["50 s of 2 files on all workers; on record 10 s", "    30.0 s, on record -: new",
                     "    20.0 s, on record 10: old"]
