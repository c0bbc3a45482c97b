"""Verdicts on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_stitch.atomic_file import write_verified
from tf_stitch.errors import DamagedFileError
from tf_stitch.jit.verdict_store import VerdictStore
from tf_stitch.native.bindings import Verdict

VERDICT = Verdict(prefers_fallback=True, stitched_us=2.5, fallback_us=1.25, from_call=512, pairs=30)


def test_what_was_kept_is_recalled(tmp_path: Path) -> None:
    VerdictStore(tmp_path / "verdicts").keep("a", VERDICT)
    store = VerdictStore(tmp_path / "verdicts")
    assert store.recall("a") == VERDICT
    assert store.recall("b") is None
    store.keep("a", Verdict(prefers_fallback=False, stitched_us=1.0, fallback_us=1.0))
    known = store.recall("a")
    assert known is not None
    assert not known.prefers_fallback


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[]", b'{"prefers_fallback": true}',
                                  b'{"prefers_fallback": true, "stitched_us": 2.0, "fallback_us": 1.0}',
                                  b'{"prefers_fallback": true, "stitched_us": 2.0, "fallback_us": 1.0, "from_call": 0}',
                                  b'{"prefers_fallback": 1, "stitched_us": 1.0, "fallback_us": 1.0, "from_call": 0, '
                                  b'"pairs": 3}',
                                  b'{"prefers_fallback": true, "stitched_us": "1", "fallback_us": 1.0, '
                                  b'"from_call": 0, "pairs": 3}'])  # fmt: skip
def test_a_damaged_file_is_named_and_made_anew(tmp_path: Path, data: bytes) -> None:
    store = VerdictStore(tmp_path)
    store.keep("a", VERDICT)
    [path] = tmp_path.iterdir()
    write_verified(path, data)
    with pytest.raises(DamagedFileError, match=path.name):
        store.recall("a")
    store.keep("a", VERDICT)
    assert store.recall("a") == VERDICT


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    store = VerdictStore(tmp_path)
    store.keep("a", VERDICT)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes().replace(b"true", b"null").replace(b"2.5", b"3.5").replace(b"null", b"true"))
    with pytest.raises(DamagedFileError, match="digest"):
        store.recall("a")


def test_a_folder_that_others_can_write_is_neither_read_nor_written(tmp_path: Path) -> None:
    VerdictStore(tmp_path).keep("a", VERDICT)
    tmp_path.chmod(0o777)
    store = VerdictStore(tmp_path)
    assert store.recall("a") is None
    with pytest.raises(OSError, match="other users"):
        store.keep("b", VERDICT)
