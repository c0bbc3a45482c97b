"""The committed table of mutants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mutating.mutant import Mutant


def markdown(results: Sequence[tuple[Mutant, Mapping[str, Any]]], date: str) -> str:
    """Counts, survivors first, and which test saw each mutant."""
    killed = sum(bool(found["killed_by"]) for _, found in results)
    minutes = sum(found["seconds"] for _, found in results) / 60
    lines = ["# Mutants", "",
             "Each breaks one mechanism in a copy of the tree; the tests named for it run until one fails.", "",
             "```", "python tools/mutants.py --markdown=benchmarks/mutants.md", "```", "",
             f"{date}: {len(results)} mutants, {killed} killed, {len(results) - killed} survived; "
             f"{minutes:.0f} minutes of one process.", "",
             "| what is broken | where | killed by | s |", "| --- | --- | --- | ---: |"]
    for mutant, found in sorted(results, key=lambda one: bool(one[1]["killed_by"])):
        by = found["killed_by"].replace("|", "\\|")
        lines.append(f"| {mutant.name} | {mutant.file.removeprefix('tf_stitch/')} | "
                     f"{f'`{by}`' if by else '**survived**'} | {found['seconds']:.0f} |")
    return "\n".join(lines) + "\n"
