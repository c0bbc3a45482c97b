"""Measured rows in files: benchmarks/raw/NAME.json.gz, and the page that is written from them, benchmarks/NAME.md."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RAW = Path(__file__).resolve().parents[2] / "benchmarks" / "raw"
MOST_ROWS = 25
"""Rows that a page shows of a table with one for each kernel; the raw rows have all."""
_OF_THE_MACHINE = re.compile(r" --(?:out|cache|json|logs|times|state|failures)[= ]\S+")
"""Flags of a command whose values are paths on the machine that measured."""


def raw_rows(name: str) -> Path:
    """Where the committed rows of a measurement are."""
    return RAW / f"{name}.json.gz"


def read_rows(path: Path) -> Any:
    """The document of a .json or .json.gz file."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def write_rows(path: Path, document: Any) -> None:
    """Writes a document; compressed, the same bytes for the same rows, if the name ends with .gz."""
    text = (json.dumps(document, indent=1) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def page_of(path: Path) -> Path:
    """The Markdown page of a file of rows: beside it, or beside the folder of raw rows."""
    folder = path.parent.parent if path.parent.name == RAW.name else path.parent
    return folder / f"{stem(path)}.md"


def stem(path: Path) -> str:
    """The name of a measurement."""
    return path.name.removesuffix(".gz").removesuffix(".json")


def command_line(arguments: Sequence[str]) -> str:
    """The command that made a measurement, as anybody can give it.

    Args:
        arguments: those of the process, its program first.
    """
    module = re.sub(r"^.*/(?=tools/)|(/__main__)?\.py$", "", arguments[0]).replace("/", ".")
    return _OF_THE_MACHINE.sub("", " ".join(["python -m", module, *arguments[1:]]))
