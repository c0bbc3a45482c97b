"""What tests compile, kept for other test processes and later runs: by source, flags, compiler and headers."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path

from tf_stitch.runtime.kernel_cache import KernelCache

KEPT_SECONDS = 7 * 24 * 3600
"""After which an artefact is made again: the folder does not grow for ever."""
PATIENCE_SECONDS = 200
"""For another process that compiles the same."""


@lru_cache(maxsize=1)
def shared_cache() -> KernelCache:
    """One folder for all test processes of this user; TF_STITCH_TEST_CACHE names another."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    found = KernelCache(Path(os.environ.get("TF_STITCH_TEST_CACHE") or caches / "tf_stitch_tests"))
    for path in found.folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process has put a file in its place meanwhile
            if time.time() - path.stat(follow_symlinks=False).st_mtime > KEPT_SECONDS:
                path.unlink()
    return found


def kept(parts: Sequence[str], suffix: str, make: Callable[[], bytes]) -> Path:
    """The artefact that `parts` decide, which is made unless it is there and intact.

    Args:
        parts: all that it depends on.
    """
    key, artefacts = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32], shared_cache()
    with artefacts.alone(key, PATIENCE_SECONDS):
        return artefacts.get(key, suffix) or artefacts.put(key, suffix, make())


@cache
def compiler_version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


def text_of(*files: Path) -> str:
    """Of files that something is compiled with."""
    return "\n".join(file.read_text() for file in files)
