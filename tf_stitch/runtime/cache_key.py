"""What a cached artefact depends on, as one digest. Forgetting a part here would run a stale binary."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

ABI_VERSION = 2


def cache_key(source: str, target: str, architecture: str, options: Sequence[str], compiler: str,
              machine: str) -> str:
    """sha256 over everything a binary depends on, as 64 hex digits.

    Args:
        architecture: compute capability or -march.
        compiler: name and version of the compiler.
        machine: what else the binary is tied to (CPU features; driver version).
    """
    digest = hashlib.sha256()
    for part in (str(ABI_VERSION), source, target, architecture, *options, "|", compiler, machine):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def package_digest() -> str:
    """sha256 of tf_stitch's Python sources and device profiles: for what they decide, and no text of it shows."""
    return sources_digest(Path(__file__).parents[1])


def sources_digest(package: Path) -> str:
    """sha256 of Python and JSON files below a folder, and of where they lie. Each first call waits for it: some 600
    files take 15 ms so, and twice as long by Path.rglob."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(package):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".py", ".json")):
                path = os.path.join(folder, name)
                with open(path, "rb", buffering=0) as file:
                    digest.update(f"{folder[len(str(package)):]}/{name}\0".encode() + file.read() + b"\0")
    return digest.hexdigest()
