"""Faults that a process brings upon itself before its first step. They need root, and Linux."""

from __future__ import annotations

import ctypes
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

NEW_MOUNTS = 0x20000  # CLONE_NEWNS
PRIVATE, READ_ONLY, REMOUNT, BIND, RECURSIVE = 1 << 18, 1, 32, 4096, 16384  # MS_*
NOBODY = 65534
PAGE = 4096
MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
"""Where control groups of version 1 are."""

Fault = Callable[[], None]


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), str(target).encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()):
        raise OSError(ctypes.get_errno(), f"mount {target}")


def _own_mounts() -> None:
    """What is mounted from now on, only this process and its children see."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    _mount("none", Path("/"), "", PRIVATE | RECURSIVE)


def nothing() -> None:
    """No fault."""


def small_disk(folder: Path, pages: int) -> Fault:
    """The folder, and its first level of folders, on a disk of so many pages."""
    def fault() -> None:
        names = [path.name for path in folder.iterdir() if path.is_dir()]
        _own_mounts()
        _mount("none", folder, "tmpfs", 0, f"size={pages * PAGE},mode=1777" if str(folder) == "/tmp"
               else f"size={pages * PAGE},mode=700")
        for name in names:
            (folder / name).mkdir(mode=0o700, exist_ok=True)

    return fault


def read_only(folder: Path) -> Fault:
    """The folder cannot be written."""
    def fault() -> None:
        _own_mounts()
        _mount(str(folder), folder, "", BIND)
        _mount("none", folder, "", BIND | REMOUNT | READ_ONLY)

    return fault


def read_only_home(folder: Path) -> Fault:
    """What holds the cache folder is empty, and cannot be written."""
    def fault() -> None:
        _own_mounts()
        _mount("none", folder.parent, "tmpfs", READ_ONLY)

    return fault


def no_temporary_folder() -> None:
    """Nor a current one."""
    _own_mounts()
    for folder in (Path("/tmp"), Path("/var/tmp")):
        _mount("none", folder, "tmpfs", READ_ONLY)
    os.chdir("/tmp")
    tempfile.tempdir = None


def little_memory(more: int) -> Fault:
    """So many bytes of address space more than the process has."""
    def fault() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * PAGE + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return fault


def little_memory_for_all(most: int) -> Fault:
    """So many bytes for what the process and its compilers take from now on; the kernel kills one of them for more."""
    def fault() -> None:
        group = MEMORY_GROUPS / f"tf_stitch_faults_{os.getpid()}"
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(most))
        (group / "cgroup.procs").write_text(str(os.getpid()))

    return fault


def remove_groups() -> None:
    """Memory groups whose processes have ended."""
    for group in MEMORY_GROUPS.glob("tf_stitch_faults_*"):
        if not (group / "cgroup.procs").read_text():
            group.rmdir()


def few_processes(most: int) -> Fault:
    """Of another user, who has so many processes and threads at most, and may not write the cache folder."""
    def fault() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    return fault


def jumping_clock(folder: Path) -> None:
    """It jumps by years at each look, and what is in the cache was written in the future, or in 1970."""
    for i, path in enumerate(sorted(folder.rglob("*"))):
        when = 2**31 - 1 if i % 2 else 0
        os.utime(path, (when, when))
    real, looks = time.time, [0]

    def jumping() -> float:
        looks[0] += 1
        return real() + (looks[0] % 5 - 2) * 1e8

    time.time = jumping
