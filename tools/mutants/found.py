"""What became of mutants, as it is committed: JSON, and a table beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tools.benchmark.raw_rows import page_of, read_rows, write_rows
from tools.mutants.mutant import Mutant
from tools.mutants.trial import Verdict

COMMAND = "python -m tools.mutants"


@dataclass
class Found:
    """Results by a mutant's key."""

    of: dict[str, dict[str, Any]]

    @staticmethod
    def read(path: Path) -> Found:
        """What a file holds; nothing if it is not there."""
        return Found(read_rows(path)["mutants"] if path.exists() else {})

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        self.of[mutant.key] = {"name": mutant.name, "file": mutant.file, "killed_by": verdict.killed_by,
                               "seconds": round(verdict.seconds, 1), "error": verdict.error}

    def write(self, path: Path, mutants: Sequence[Mutant]) -> None:
        """Results of these mutants; others are forgotten."""
        own = {m.key: self.of[m.key] for m in mutants if m.key in self.of}
        killed = sum(bool(one["killed_by"]) for one in own.values())
        result = f"{killed} of {len(own)} killed"
        document = {"what": "Mechanisms broken once each, and whether a test fails", "command": COMMAND,
                    "date": date.today().isoformat(), "result": result, "mutants": own}
        write_rows(path, document)
        page_of(path).write_text(markdown(document))


def markdown(document: dict[str, Any]) -> str:
    """Counts, survivors first, and which test saw each mutant."""
    rows = sorted(document["mutants"].values(), key=lambda one: bool(one["killed_by"]))
    minutes = sum(one["seconds"] for one in rows) / 60
    lines = [f"# {document['what']}", "",
             "Each mutant is an edit in a copy of the tree; the tests named for it run until one fails.", "",
             f"`{document['command']}`, {document['date']}: {document['result']}, {minutes:.0f} minutes "
             "of processes.", "",
             "| what is broken | where | killed by | s |", "| --- | --- | --- | ---: |"]
    for one in rows:
        by = one["killed_by"].replace("|", "\\|")
        lines.append(f"| {one['name']} | {one['file'].removeprefix('tf_stitch/')} | "
                     f"{f'`{by}`' if by else '**survived**'} | {one['seconds']:.0f} |")
    return "\n".join(lines) + "\n"
