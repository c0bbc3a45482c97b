"""A folder of small JSON documents that processes share, each verified when it is read."""

from __future__ import annotations

import errno
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from tf_stitch.atomic_file import read_verified, write_verified
from tf_stitch.errors import DamagedFileError
from tf_stitch.private_folder import Access, make_private


class JsonFolder:
    """One file for each document, named by its key. Threads and processes may share the folder.

    Attributes:
        folder: need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> Any:
        """The document; None if there is none, or others can write the folder.

        Raises:
            OSError, DamagedFileError: the file cannot be read, or is not what was written.
        """
        path = self.path(key)
        if not self._access.reading:
            return None
        try:
            return json.loads(read_verified(path))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DamagedFileError(f"{path}: {error}") from error

    def write(self, key: str, document: Any) -> None:
        """Stores a document for later processes.

        Raises:
            OSError: the disk is full, or the folder cannot be written, or others can.
        """
        if self._access.problem:
            raise PermissionError(errno.EPERM, self._access.problem, str(self.folder))
        write_verified(self.path(key), json.dumps(document).encode())

    def path(self, key: str) -> Path:
        """Where a document is."""
        return self.folder / f"{key}.json"

    @cached_property
    def _access(self) -> Access:
        return make_private(self.folder)
