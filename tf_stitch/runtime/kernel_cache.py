"""Built kernels and plans on disk: private, written atomically, verified when read."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections import Counter
from pathlib import Path

from tf_stitch.atomic_file import write_atomically
from tf_stitch.errors import BuildError


class KernelCache:
    """A folder of artefacts `<key><suffix>`, each with its own digest beside it.

    A folder that cannot be written is replaced by a private temporary one; `problem` then says why. Thread-safe.
    """

    def __init__(self, folder: Path) -> None:
        self.problem: str | None = None
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        try:
            self.folder = _private_folder(folder)
        except OSError as error:
            self.problem = f"cache folder {folder}: {error.strerror or error}; kernels are kept for this run only"
            self.folder = Path(tempfile.mkdtemp(prefix="tf_stitch_"))

    def get(self, key: str, suffix: str) -> Path | None:
        """The artefact's path, or None if it is missing or damaged (a damaged one is removed)."""
        path = self.folder / (key + suffix)
        try:
            expected = path.with_suffix(".sha256").read_text().strip()
            data = path.read_bytes()
        except OSError:
            self._count("misses")
            return None
        if hashlib.sha256(data).hexdigest() != expected:
            self._count("misses")
            self._drop(path)
            return None
        self._count("hits")
        return path

    def discard(self, key: str, suffix: str) -> None:
        """Removes an artefact that was found and makes no sense; it counts as damaged."""
        self._drop(self.folder / (key + suffix))

    def counts(self) -> dict[str, int]:
        """Artefacts found, not found, and found damaged."""
        with self._lock:
            return {name: self._counts[name] for name in ("hits", "misses", "corrupt")}

    def _drop(self, path: Path) -> None:
        self._count("corrupt")
        path.unlink(missing_ok=True)

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def put(self, key: str, suffix: str, data: bytes) -> Path:
        """Stores an artefact; a reader sees all of it or nothing.

        Raises:
            BuildError: the disk is full or the folder vanished.
        """
        path = self.folder / (key + suffix)
        try:
            write_atomically(path, data, 0o700)
            write_atomically(path.with_suffix(".sha256"), hashlib.sha256(data).hexdigest().encode())
        except OSError as error:
            raise BuildError(f"cannot store a built kernel in {self.folder}: {error.strerror or error}") from None
        return path


def _private_folder(folder: Path) -> Path:
    folder = folder.expanduser()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(1, "belongs to another user")
    if folder.stat().st_mode & 0o022:
        folder.chmod(0o700)
    with tempfile.TemporaryFile(dir=folder):
        return folder
