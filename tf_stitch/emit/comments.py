"""Comments of generated source: they name the user's nodes, and decide nothing. Kernels that differ in them alone are
the same kernel, named, built and kept once."""

from __future__ import annotations

from functools import lru_cache

LONGEST = 200
"""Characters of a comment."""
_AFTER = "  // "


@lru_cache(maxsize=1 << 12)
def safe_comment(text: str) -> str:
    """Text from a user's graph as part of a one-line ASCII comment: nothing in it can end the comment or the line."""
    kept = "".join(c if (c.isascii() and c.isalnum()) or c in " _-/.:,()[]=" else "_" for c in text.replace("*/", "__"))
    return kept if len(kept) <= LONGEST else kept[:LONGEST - 3] + "..."


def after(line: str, text: str) -> str:
    """A line of code, and what it says behind it, if anything."""
    return f"{line}{_AFTER}{safe_comment(text)}" if text else line


def code_of(source: str) -> str:
    """The source without comments."""
    return "\n".join(line.partition(_AFTER)[0] for line in source.splitlines() if not line.lstrip().startswith("//"))
