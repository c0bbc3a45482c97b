"""What was built or planned, on disk: private, written atomically, tried before it is kept, verified when read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

from tf_stitch.atomic_file import read_verified, remove_abandoned, write_verified
from tf_stitch.errors import BuildInterruptedError, DamagedFileError
from tf_stitch.private_folder import make_private, open_lock, temporary_folder

_PAUSE = 0.02
Parsed = TypeVar("Parsed")


class KernelCache:
    """A folder of artefacts `<key><suffix>`, each of which ends with its digest.

    What cannot be written there goes to a temporary folder; `problem` then says why. A folder that is only read, and
    holds all that is wanted, is no problem. Thread-safe.
    """

    def __init__(self, folder: Path) -> None:
        self.problem: str | None = None
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.folder = folder.expanduser().resolve()
        access = make_private(self.folder)
        self._unwritable = access.problem
        self._instead = temporary_folder(str(self.folder)) if access.problem else None
        if self._instead is not None and not access.reading:
            self._note()
            self.folder = self._instead
        if not access.problem:
            remove_abandoned(self.folder)

    def get(self, key: str, suffix: str) -> Path | None:
        """The artefact's path, or None if it is missing or damaged (a damaged one is removed)."""
        found = next((path for folder in self._folders() if (path := self._intact(folder / (key + suffix)))), None)
        self._count("misses" if found is None else "hits")
        return found

    def _folders(self) -> tuple[Path, ...]:
        return (self.folder,) if self._instead in (None, self.folder) else (self.folder, self._instead)

    def _intact(self, path: Path) -> Path | None:
        try:
            read_verified(path)
        except OSError:
            return None
        except DamagedFileError:
            self._drop(path)
            return None
        return path

    def parsed(self, key: str, suffix: str, parse: Callable[[bytes], Parsed]) -> Parsed | None:
        """What `parse` makes of an artefact; None if it is missing or damaged, or if `parse` raises ValueError,
        LookupError or TypeError: then it makes no sense, is removed, and counts as damaged."""
        path = self.get(key, suffix)
        if path is None:
            return None
        try:
            return parse(read_verified(path))
        except (OSError, DamagedFileError, ValueError, LookupError, TypeError):
            self.discard(key, suffix)
            return None

    @contextlib.contextmanager
    def alone(self, key: str, patience: float) -> Iterator[bool]:
        """Who would build the artefact at the same time waits, here or in another process, `patience` seconds at most.

        Yields whether it did wait: then the artefact may be there. Nobody waits where files cannot be locked.
        """
        path, deadline = self.folder / f"{key}.lock", time.monotonic() + patience
        waited, file = False, _opened(path)
        while file is not None and not _locked(file, path):
            waited = True
            file.close()
            time.sleep(_PAUSE)
            file = _opened(path) if time.monotonic() < deadline else None
        try:
            yield waited
        finally:
            if file is not None:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
                    fcntl.flock(file, fcntl.LOCK_UN)  # also of a child that was forked meanwhile, which has the file
                file.close()

    def discard(self, key: str, suffix: str) -> None:
        """Removes an artefact that was found and makes no sense; it counts as damaged."""
        for folder in self._folders():
            self._drop(folder / (key + suffix))

    def counts(self) -> dict[str, int]:
        """Artefacts found, not found, and found damaged."""
        with self._lock:
            return {name: self._counts[name] for name in ("hits", "misses", "corrupt")}

    def _drop(self, path: Path) -> None:
        if path.exists():
            self._count("corrupt")
        with contextlib.suppress(OSError):  # of a folder that is only read
            path.unlink(missing_ok=True)

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _note(self) -> None:
        self.problem = f"cache folder {self.folder}: {self._unwritable}; what it lacks is kept for this run only"

    def put(self, key: str, suffix: str, data: bytes, check: Callable[[Path], None] | None = None) -> Path:
        """Stores an artefact; a reader sees all of it or nothing.

        Args:
            check: tries the finished file before it gets its name. If it raises, nothing is stored.

        Raises:
            BuildInterruptedError: it can be stored nowhere: disks are full.
        """
        if self._instead is None:
            try:
                return _store(self.folder / (key + suffix), data, check)
            except OSError as error:
                self._unwritable = error.strerror or str(error)
                self._instead = self._elsewhere()
        if self.problem is None:
            self._note()
        try:
            return _store(self._instead / (key + suffix), data, check)
        except OSError as error:
            raise BuildInterruptedError(f"cannot store a built kernel in {self.folder}, nor in {self._instead}: "
                                        f"{error.strerror or error}") from None

    def keep(self, key: str, suffix: str, data: bytes) -> None:
        """As `put`, of what who needs it can make again: if it can be stored nowhere, `problem` says why."""
        try:
            self.put(key, suffix, data)
        except BuildInterruptedError as error:
            self.problem = error.message

    def _elsewhere(self) -> Path:
        try:
            return temporary_folder(str(self.folder))
        except OSError as error:
            raise BuildInterruptedError(f"cannot store a built kernel in {self.folder} ({self._unwritable}), nor in a "
                                        f"temporary folder: {error.strerror or error}") from None


def _opened(path: Path) -> IO[bytes] | None:
    try:
        return open_lock(path)
    except OSError:  # of a folder that is only read
        return None


def _locked(file: IO[bytes], path: Path) -> bool:
    """Whether the lock is taken, or cannot be. One of a file that its last owner has removed is none."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError:
        return True


def _store(path: Path, data: bytes, check: Callable[[Path], None] | None) -> Path:
    write_verified(path, data, 0o755, check)  # the folder keeps others out; a copy elsewhere is for them, too
    return path
