"""Verdicts of profitability checks on disk: the next process begins as the one before it ended."""

from __future__ import annotations

from dataclasses import asdict

from tf_stitch.errors import DamagedFileError
from tf_stitch.json_folder import JsonFolder
from tf_stitch.native.bindings import Verdict

_FIELDS = {"prefers_fallback": bool, "stitched_us": float, "fallback_us": float, "from_call": int, "pairs": int}


class VerdictStore(JsonFolder):
    """Verdicts, by the key of their region."""

    def recall(self, key: str) -> Verdict | None:
        """The verdict that was kept.

        Raises:
            OSError, DamagedFileError: it cannot be read, or is not what was written: `keep` writes it again.
        """
        document = self.read(key)
        if document is None:
            return None
        if not isinstance(document, dict) or {k: type(v) for k, v in document.items()} != _FIELDS:
            raise DamagedFileError(f"{self.path(key)} holds no verdict")
        return Verdict(**document)

    def keep(self, key: str, verdict: Verdict) -> None:
        """Stores a verdict for later processes.

        Raises:
            OSError: the disk is full, or the folder cannot be written, or others can.
        """
        self.write(key, asdict(verdict))
