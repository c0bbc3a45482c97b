"""What explain can be pointed at, as a report document: a report is read, a graph or a SavedModel is analysed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tf_stitch.errors import StitchError

SOURCES = "sources"
"""Folder of the kernels' sources, beside the report."""
Document = dict[str, Any]
"""report.json, and under "sources" the text of its kernels' sources by name."""


def load_document(path: Path, size: int | None = None, device: str = "cpu") -> Document:
    """The report document of a report.json (or its folder), a GraphDef or a SavedModel.

    Args:
        size: stands for sizes known at run time only, when a graph is analysed.
        device: "cpu" or "h200", for which a graph is planned.

    Raises:
        StitchError: it is none of these; the message says what was tried.
    """
    if (path / "report.json").exists():
        path = path / "report.json"
    if path.suffix == ".json":
        return _read_report(path)
    if path.name in ("saved_model.pb", "saved_model.pbtxt"):
        path = path.parent
    if not path.exists():
        raise StitchError(f"{path} does not exist")
    from tf_stitch.cli.explain.graphs import (
        analyse,  # here: TensorFlow takes seconds to import, and reports need none of it
    )

    return analyse(path, size, device)


def _read_report(path: Path) -> Document:
    try:
        document: Document = json.loads(path.read_text())
        ours = all(isinstance(document[key], list) for key in ("graphs", "regions", "kernels", "builds", "fallbacks"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StitchError(f"{path} is no report of tf_stitch ({type(error).__name__}: {error})") from None
    if not ours or any(not isinstance(graph["nodes"], list) for graph in document["graphs"]):
        raise StitchError(f"{path} was not written by this version of tf_stitch")
    document["sources"] = {file.name: file.read_text() for file in sorted((path.parent / SOURCES).glob("region_*"))}
    return document
