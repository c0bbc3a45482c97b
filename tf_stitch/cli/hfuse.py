"""`tf_stitch hfuse`; see tf_stitch/hfuse/command.py."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.hfuse import command


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    return command.main(["hfuse", *arguments])
