"""Verdicts of profitability checks on disk: the next process begins as the one before it ended."""

from __future__ import annotations

import errno
import json
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from tf_stitch.atomic_file import read_verified, write_verified
from tf_stitch.errors import DamagedFileError
from tf_stitch.native.bindings import Verdict
from tf_stitch.private_folder import Access, make_private


class VerdictStore:
    """One JSON file a verdict, named by its key, verified when it is read. Threads and processes may share the folder.

    Attributes:
        folder: need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def recall(self, key: str) -> Verdict | None:
        """The verdict that was kept.

        Raises:
            OSError, DamagedFileError: it cannot be read, or is not what was written: `keep` writes it anew.
        """
        path = self._path(key)
        if not self._access.reading:
            return None
        try:
            document = json.loads(read_verified(path))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DamagedFileError(f"{path}: {error}") from error
        wanted = {"prefers_fallback": bool, "stitched_us": float, "fallback_us": float, "from_call": int, "pairs": int}
        if not isinstance(document, dict) or {k: type(v) for k, v in document.items()} != wanted:
            raise DamagedFileError(f"{path} holds no verdict")
        return Verdict(**document)

    def keep(self, key: str, verdict: Verdict) -> None:
        """Stores a verdict for later processes.

        Raises:
            OSError: the disk is full, or the folder cannot be written, or others can.
        """
        if self._access.problem:
            raise PermissionError(errno.EPERM, self._access.problem, str(self.folder))
        write_verified(self._path(key), json.dumps(asdict(verdict)).encode())

    @cached_property
    def _access(self) -> Access:
        return make_private(self.folder)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"
