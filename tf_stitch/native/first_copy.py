"""Which copy of the op library serves, of those that a process has loaded: the first (native/op/first_copy.cc)."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tf_stitch.errors import NativeError
from tf_stitch.native.signatures import declare


def serving_copy(path: Path) -> Path:
    """The file whose ops run: the library that was just loaded, or a copy that the program had loaded before.

    Raises:
        NativeError: that is none that this package could call.
    """
    library = declare(ctypes.CDLL(str(path)))
    if library.tfs_serves():
        return path
    other = Path(library.tfs_serving_library().decode(errors="replace"))
    sources = getattr(ctypes.CDLL(str(other)), "tfs_sources", None) if other.name else None
    if sources is not None:
        sources.restype = ctypes.c_char_p
    if sources is None or sources() != library.tfs_sources():
        found = str(other) if other.name else "an op library of tf_stitch"
        raise NativeError(f"the program has loaded {found} before, which is of another version than this "
                          f"tf_stitch: let it load a copy of {path}, or none")
    return other
