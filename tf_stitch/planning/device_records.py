"""What was measured on a device: one JSON file, which processes share."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

from tf_stitch.atomic_file import read_verified, write_verified
from tf_stitch.errors import DamagedFileError

T = TypeVar("T")


class DeviceRecords(ABC, Generic[T]):
    """Records by key. Thread-safe. Subclasses say what a record is, in JSON.

    A file that cannot be read counts as empty; `problem` then says why.
    """

    what: str
    """Names the records in messages."""

    def __init__(self, file: Path) -> None:
        self.problem: str | None = None
        self._file = file
        self._lock = threading.Lock()
        self._records = self._read()

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> T | None:
        return self._records.get(key)

    def digest(self) -> str:
        """Hex sha256 of all records."""
        return sha256(self._text().encode()).hexdigest()

    def add(self, records: Mapping[str, T]) -> None:
        """Keeps records for later processes too; what others wrote meanwhile stays.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock:
            self._records = {**self._read(), **self._records, **records}
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_verified(self._file, self._text(indent=0).encode())

    @abstractmethod
    def decode(self, value: Any) -> T:
        """A record from JSON.

        Raises:
            ValueError, TypeError, KeyError: it is none.
        """

    @abstractmethod
    def encode(self, record: T) -> Any:
        """A record as JSON."""

    def _text(self, indent: int | None = None) -> str:
        document = {key: self.encode(record) for key, record in self._records.items()}
        return json.dumps(document, sort_keys=True, indent=indent)

    def _read(self) -> dict[str, T]:
        try:
            document = json.loads(read_verified(self._file))
        except FileNotFoundError:
            return {}
        except (OSError, DamagedFileError, ValueError) as error:
            self.problem = f"{self._file}: {error}; {self.what} are made anew"
            return {}
        try:
            return {key: self.decode(value) for key, value in document.items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            self.problem = f"{self._file} holds no {self.what}; they are made anew"
            return {}
