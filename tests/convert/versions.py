"""Versions of one converted model, equal but for their digests: what a server meets that reloads a model each hour."""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
from pathlib import Path

from tf_stitch.convert.module_file import MAGIC

_WORD = 8
_BLOB_WORDS = 6
"""Of a blob in a module's head: offset, bytes, digest (convert/module_file.py)."""


def version(model: Path, folder: Path, number: int) -> Path:
    """A copy of a converted model; its module has one more blob, of `number` bytes, that no kernel is in."""
    shutil.copytree(model, folder)
    [file] = (folder / "assets").glob("tf_stitch_module*.bin")
    data = file.read_bytes()
    [count] = struct.unpack_from("<q", data, len(MAGIC))
    start, end = len(MAGIC) + _WORD, len(MAGIC) + _WORD + count * _WORD
    words = list(struct.unpack_from(f"<{count}q", data, start))
    blobs = words[2]
    words[2] += 1
    words[3 + blobs * _BLOB_WORDS:3 + blobs * _BLOB_WORDS] = [0, number, 0, 0, 0, 0]
    head = MAGIC + struct.pack(f"<q{len(words)}q", len(words), *words)
    file.write_bytes(head + data[end:])
    old, new = (hashlib.sha256(text).hexdigest().encode() for text in (data[:end], head))
    graph = (folder / "saved_model.pb").read_bytes()
    assert re.search(old, graph)
    (folder / "saved_model.pb").write_bytes(graph.replace(old, new))
    return folder
