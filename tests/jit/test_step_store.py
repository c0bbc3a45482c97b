"""Times of steps on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_stitch.atomic_file import write_verified
from tf_stitch.errors import DamagedFileError
from tf_stitch.jit.step_store import StepStore
from tf_stitch.report.step_times import StepTimes

TIMES = StepTimes((4.0, 2.0), (1.0, 0.5))


def test_each_turn_is_kept(tmp_path: Path) -> None:
    """A later process knows how many there are, and adds its own."""
    StepStore(tmp_path / "steps").keep("a", TIMES)
    store = StepStore(tmp_path / "steps")
    assert store.recall("b") == StepTimes()
    store.keep("a", store.recall("a").with_turn(3.0, 1.0))
    assert store.recall("a") == StepTimes((4.0, 2.0, 3.0), (1.0, 0.5, 1.0))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"before_us": [1.0], "now_us": []}', b"\xff",
                                  b'{"before_us": [-1.0], "now_us": [1.0]}', b'{"before_us": 1, "now_us": 1}'])
def test_a_damaged_file_is_named(tmp_path: Path, data: bytes) -> None:
    store = StepStore(tmp_path)
    store.keep("a", TIMES)
    [path] = tmp_path.iterdir()
    write_verified(path, data)
    with pytest.raises(DamagedFileError, match=path.name):
        store.recall("a")
    store.keep("a", TIMES)
    assert store.recall("a") == TIMES


def test_a_folder_that_others_can_write_is_neither_read_nor_written(tmp_path: Path) -> None:
    StepStore(tmp_path).keep("a", TIMES)
    tmp_path.chmod(0o777)
    store = StepStore(tmp_path)
    assert store.recall("a") == StepTimes()
    with pytest.raises(OSError, match="other users"):
        store.keep("b", TIMES)
