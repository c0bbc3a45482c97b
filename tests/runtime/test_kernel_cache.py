"""The kernel cache: atomic, verified, private, and never in the way."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tf_stitch.atomic_file import read_verified
from tf_stitch.errors import BuildInterruptedError
from tf_stitch.runtime.cache_key import cache_key
from tf_stitch.runtime.kernel_cache import KernelCache


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_what_is_put_is_got(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "new" / "folder")
    assert cache.get("k", ".so") is None
    path = cache.put("k", ".so", b"binary")
    assert cache.get("k", ".so") == path
    assert read_verified(path) == b"binary"
    assert KernelCache(tmp_path / "new" / "folder").get("k", ".so") == path, "another process sees it"
    assert cache.counts() == {"hits": 1, "misses": 1, "corrupt": 0}


@pytest.mark.parametrize("damage", [b"", b"binarz", b"binary and more"])
def test_a_damaged_entry_is_a_miss_and_is_rebuilt(tmp_path: Path, damage: bytes) -> None:
    cache = KernelCache(tmp_path)
    path = cache.put("k", ".so", b"binary")
    path.write_bytes(damage)
    assert cache.get("k", ".so") is None
    assert cache.counts()["corrupt"] == 1
    cache.put("k", ".so", b"binary")
    assert cache.get("k", ".so") == path


def test_an_entry_without_its_digest_is_damaged(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    cache.put("k", ".so", b"binary").write_bytes(b"binary")
    assert cache.get("k", ".so") is None
    assert cache.counts()["corrupt"] == 1


@pytest.mark.parametrize("at", [0, 6, 7, 20, -2, -1])
def test_no_byte_of_an_entry_may_change(tmp_path: Path, at: int) -> None:
    """Not in its digest, either: no byte of that has to be UTF-8."""
    cache = KernelCache(tmp_path)
    path = cache.put("k", ".so", b"binary")
    data = bytearray(path.read_bytes())
    data[at] = 0xFF
    path.write_bytes(data)
    assert cache.get("k", ".so") is None
    assert cache.counts()["corrupt"] == 1
    assert not path.exists()
    assert cache.get("k", ".so") is None, "it is gone"
    assert cache.put("k", ".so", b"binary") == cache.get("k", ".so") == path


def test_what_fails_its_check_is_not_kept(tmp_path: Path) -> None:
    def check(path: Path) -> None:
        assert path.parent == tmp_path
        assert path.read_bytes().startswith(b"binary"), "the file is finished"
        raise BuildInterruptedError("cannot be loaded")

    cache = KernelCache(tmp_path)
    with pytest.raises(BuildInterruptedError, match="cannot be loaded"):
        cache.put("k", ".so", b"binary", check)
    assert files(tmp_path) == []


def test_what_killed_processes_left_goes_after_a_day(tmp_path: Path) -> None:
    for name, age in ((".tmp_old", 2 * 24 * 3600), (".tmp_new", 60), ("old.so", 2 * 24 * 3600)):
        (tmp_path / name).write_bytes(b"part")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    KernelCache(tmp_path)
    assert files(tmp_path) == [".tmp_new", "old.so"]


def test_the_folder_is_private(tmp_path: Path) -> None:
    assert KernelCache(tmp_path / "new").folder.stat().st_mode & 0o077 == 0
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    cache = KernelCache(shared)
    assert cache.folder != shared, "others may have planted binaries"
    assert "other users" in str(cache.problem)


def test_a_copy_of_an_entry_can_be_read_by_all(tmp_path: Path) -> None:
    """A server that runs as another user loads a copy of the op library; its mode goes with it."""
    entry = KernelCache(tmp_path / "new").put("k", ".so", b"machine code")
    assert stat.S_IMODE(entry.stat().st_mode) == 0o755


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() == 0:  # whose files everybody trusts
        os.chown(tmp_path, 4712, -1)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    cache = KernelCache(tmp_path)
    assert cache.folder != tmp_path
    assert "another user" in str(cache.problem)


def test_a_folder_that_cannot_be_written_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = KernelCache(tmp_path / "file" / "cache")
    assert cache.problem is not None
    assert str(tmp_path / "file") in cache.problem
    assert read_verified(cache.put("k", ".so", b"x")) == b"x"


def test_a_read_only_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KernelCache(tmp_path).put("known", ".so", b"binary")
    bad = KernelCache(tmp_path).put("bad", ".so", b"binary")
    bad.write_bytes(b"binarz")

    def refuse(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    cache = KernelCache(tmp_path)
    assert cache.get("known", ".so") == known
    assert cache.get("bad", ".so") is None
    assert cache.problem is None, "nothing had to be written"
    for key in ("new", "bad"):
        path = cache.put(key, ".so", b"new")
        assert path.parent != tmp_path
        assert cache.get(key, ".so") == path
    assert "Read-only" in str(cache.problem)


@pytest.mark.parametrize("call", ["replace", "fdopen"])
def test_a_full_disk_has_a_temporary_folder_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
                                                      ) -> None:
    cache, real, full_disks = KernelCache(tmp_path), getattr(os, call), 1

    def full(handle: Any, *rest: Any) -> Any:
        nonlocal full_disks
        if full_disks == 0:
            return real(handle, *rest)
        full_disks -= 1
        if isinstance(handle, int):
            os.close(handle)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    path = cache.put("k", ".so", b"binary")
    assert files(tmp_path) == []
    assert cache.get("k", ".so") == path
    assert "No space left" in str(cache.problem)
    full_disks = 1
    with pytest.raises(BuildInterruptedError, match="No space left"):
        cache.put("other", ".so", b"binary")
    assert cache.get("other", ".so") is None


def test_disks_that_are_full_everywhere_may_not_be_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = KernelCache(tmp_path)

    def full(*_: Any, **__: Any) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        patch.setattr(tempfile, "mkdtemp", full)
        with pytest.raises(BuildInterruptedError, match="nor in a temporary folder: No space left"):
            cache.put("k", ".so", b"binary")
    path = cache.put("k", ".so", b"binary")
    assert path.parent == tmp_path
    assert cache.get("k", ".so") == path
    assert cache.problem is None


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = KernelCache(tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        cache.put("k", ".so", b"binary")
    monkeypatch.undo()
    assert cache.get("k", ".so") is None
    assert files(tmp_path) == []


def test_writers_of_different_contents_never_damage_each_other(tmp_path: Path) -> None:
    """As two processes do that plan the same region: a plan says how long it took."""
    counts: list[int] = []

    def work(number: int) -> None:
        cache = KernelCache(tmp_path)
        for i in range(40):
            cache.put("k", ".plan", f"{number} {i}".encode())
            assert cache.get("k", ".plan") is not None
        counts.append(cache.counts()["corrupt"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert counts == [0] * 4


def test_concurrent_writers_and_readers_see_all_or_nothing(tmp_path: Path) -> None:
    data = os.urandom(1 << 16)
    wrong: list[bytes] = []

    def work() -> None:
        cache = KernelCache(tmp_path)
        for _ in range(30):
            path = cache.get("k", ".so")
            if path is not None and read_verified(path) != data:
                wrong.append(path.read_bytes())
            cache.put("k", ".so", data)
        wrong.extend([b"corrupt"] * cache.counts()["corrupt"])

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


PARTS = {"source": "s", "target": "t", "architecture": "a", "options": ("x", "y"), "compiler": "c", "machine": "m"}


@pytest.mark.parametrize("part", PARTS)
def test_the_key_changes_with_every_part(part: str) -> None:
    other = {**PARTS, part: ("x", "z") if part == "options" else "other"}
    assert cache_key(**other) != cache_key(**PARTS)  # type: ignore[arg-type]


def test_the_key_keeps_parts_apart() -> None:
    keys = {cache_key(**{**PARTS, **change}) for change in (  # type: ignore[arg-type]
        {}, {"options": ("xy",)}, {"options": ("y", "x")}, {"options": ("x",), "compiler": "yc"},
        {"source": "st", "target": ""}, {"source": "", "target": "st"})}
    assert len(keys) == 6


def test_the_key_is_stable() -> None:
    assert cache_key(**PARTS) == cache_key(**PARTS)  # type: ignore[arg-type]
    assert len(cache_key(**PARTS)) == 64  # type: ignore[arg-type]


def test_those_who_build_at_once_wait_for_the_first(tmp_path: Path) -> None:
    """Threads, with a cache each as processes have."""
    built: list[int] = []

    def get_or_build(number: int) -> None:
        cache = KernelCache(tmp_path)
        if cache.get("k", ".so") is None:
            with cache.alone("k", 60) as waited:
                if not waited or cache.get("k", ".so") is None:
                    time.sleep(0.2)
                    built.append(number)
                    cache.put("k", ".so", b"binary")

    threads = [threading.Thread(target=get_or_build, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    with KernelCache(tmp_path).alone("k", 60) as first, KernelCache(tmp_path).alone("k", 0.1) as second:
        assert (first, second) == (False, True)
    with KernelCache(tmp_path).alone("k", 60) as again:
        assert not again, "the lock is given back"
    assert files(tmp_path) == []


def test_nobody_waits_where_nothing_can_be_locked(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    (tmp_path / "k.lock").mkdir()
    with cache.alone("k", 60) as first, cache.alone("k", 60) as second:
        assert (first, second) == (False, False)
