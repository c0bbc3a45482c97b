"""Folders of files for people, as reports and dumps, in which others may write, too: no link of theirs is followed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

_MOST_LINKS = 40
"""In one path; the kernel follows no more either."""


@contextlib.contextmanager
def opened(folder: Path, links: bool = False) -> Iterator[Path]:
    """A folder, made unless it is there, by a path that names it whatever others put in its place meanwhile.

    Args:
        links: it may be reached by links of this user or of root, which the user has named.

    Raises:
        OSError: it cannot be made, or is a link.
    """
    if links:
        _check_links(folder, _MOST_LINKS)
        folder.mkdir(parents=True, exist_ok=True)
    else:
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW))
    try:
        yield Path(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


def _check_links(path: Path, most: int) -> None:
    """
    Raises:
        PermissionError: another user's link decides where the path leads.
        OSError: there are too many.
    """
    if not most:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    for part in (*reversed(path.parents), path):
        if part.is_symlink():
            if part.lstat().st_uid not in (os.getuid(), 0):
                raise PermissionError(errno.EPERM, "is a link of another user", str(part))
            return _check_links(part.parent / part.readlink() / path.relative_to(part), most - 1)
    return None
