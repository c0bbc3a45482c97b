"""Verdicts of profitability checks on disk: the next process begins as the one before it ended."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tf_stitch.atomic_file import write_atomically
from tf_stitch.native.bindings import Verdict


class VerdictStore:
    """One JSON file a verdict, by its key, a hex digest. Threads and processes may share the folder.

    Attributes:
        folder: need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def recall(self, key: str) -> Verdict | None:
        """The verdict that was kept.

        Raises:
            OSError, ValueError: it cannot be read, or is damaged: `keep` writes it anew.
        """
        path = self._path(key)
        try:
            document = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        wanted = {"prefers_fallback": bool, "stitched_us": float, "fallback_us": float, "from_call": int}
        if not isinstance(document, dict) or {k: type(v) for k, v in document.items()} != wanted:
            raise ValueError(f"{path} holds no verdict")
        return Verdict(**document)

    def keep(self, key: str, verdict: Verdict) -> None:
        """Stores a verdict for later processes.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._path(key), json.dumps(asdict(verdict)).encode())

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"
