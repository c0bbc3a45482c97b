"""What a built kernel depends on, as one digest. Forgetting a part here would run a stale binary."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

ABI_VERSION = 1


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
