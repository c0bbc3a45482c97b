"""Files that a reader sees whole and as they were written, or not at all.

All that the cache folder holds is written by `write_verified`: the SHA-256 of the content is the file's last line, so
that content and digest come into place by one rename. Loaders of shared libraries and cubins ignore that line.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tf_stitch.errors import DamagedFileError

PARTIAL = ".tmp_"
"""Prefix of names of files that are being written."""
_ABANDONED_SECONDS = 24 * 3600
_LAST_LINE = re.compile(rb"\n#sha256 ([0-9a-f]{64})\n\Z")
_LAST_LINE_BYTES = len(b"\n#sha256 \n") + 64


def write_atomically(path: Path, data: bytes, mode: int = 0o600, check: Callable[[Path], None] | None = None,
                     durable: bool = True) -> None:
    """Writes a file in place of what was there, also of a link; several threads and processes may do so at once.

    Args:
        check: is called with the finished file under another name in the same folder. If it raises, nothing is kept.
        durable: it is on the disk when this returns.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=PARTIAL)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:  # else a crash of the machine may leave the new name with no content
                file.flush()
                os.fsync(file.fileno())
        os.chmod(name, mode)
        if check is not None:
            check(Path(name))
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)  # what was not moved away


def write_verified(path: Path, data: bytes, mode: int = 0o600, check: Callable[[Path], None] | None = None) -> None:
    """As write_atomically, with the digest that `read_verified` expects."""
    write_atomically(path, data + b"\n#sha256 " + hashlib.sha256(data).hexdigest().encode() + b"\n", mode, check)


def read_verified(path: Path, digest_required: bool = True) -> bytes:
    """The content of a file that `write_verified` wrote.

    Args:
        digest_required: False admits a file without a digest, which somebody may have written by hand.

    Raises:
        DamagedFileError: the content is not what was written.
        OSError: there is no such file, or it cannot be read.
    """
    data = path.read_bytes()
    found = _LAST_LINE.search(data, max(0, len(data) - _LAST_LINE_BYTES))
    if found is None:
        if digest_required:
            raise DamagedFileError(f"{path} does not end with its digest")
        return data
    content = data[:found.start()]
    if hashlib.sha256(content).hexdigest().encode() != found[1]:
        raise DamagedFileError(f"{path} is damaged: it does not match its digest")
    return content


def remove_abandoned(folder: Path) -> None:
    """Removes what processes that were killed had begun to write, a day later."""
    for path in folder.glob(f"{PARTIAL}*"):
        try:
            if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                path.unlink(missing_ok=True)
        except OSError:  # somebody else's, or gone by now
            continue
