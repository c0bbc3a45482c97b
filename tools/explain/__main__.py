"""Says for every op of a graph which kernel computes it, at what cost, or why TensorFlow still does.

    TF_STITCH=1 TF_STITCH_REPORT=/tmp/stitch python train.py
    python -m tools.explain /tmp/stitch                               # every op; and draws explain.html
    python -m tools.explain /tmp/stitch --why='*layer_norm*'          # all that is known of some ops
    python -m tools.explain /tmp/stitch --measure                     # and time every kernel here, alone
    python -m tools.explain saved_model_folder --size=32
    python -m tools.explain graph.pb --device=h200

A SavedModel (its signatures) or a GraphDef is analysed without being run; the TF_STITCH_* variables count there, too.
Sizes that only a run would tell, such as a batch, are --size; without it regions with such sizes are not planned.
The times and bytes of an op are those of its kernel, which other ops share.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from absl import app, flags

from tf_stitch.errors import StitchError
from tools.explain.load import Document, load_document
from tools.explain.measure import measure
from tools.explain.page import write_page
from tools.explain.rows import Graph, graphs
from tools.explain.text import table
from tools.explain.why import answers

ROOT = Path(__file__).resolve().parents[2]


_OP = flags.DEFINE_string("op", None, "list only ops whose names match this glob (* also matches /)")
_WHY = flags.DEFINE_string("why", None, "instead of the list, all that is known of ops whose names match this glob")
_GRAPH = flags.DEFINE_string("graph", None, "only graphs whose names have this in them")
_HTML = flags.DEFINE_string("html", "explain.html", "file for the drawing, a page that needs nothing else; empty: none")
_MEASURE = flags.DEFINE_bool("measure", False, "run every kernel by itself on this machine and tell its time")
_SIZE = flags.DEFINE_integer("size", None, "analysis: stands for sizes known at run time only", lower_bound=1)
_DEVICE = flags.DEFINE_enum("device", "cpu", ["cpu", "h200"], "analysis: what to plan for")


def main(argv: Sequence[str]) -> None:
    """Raises SystemExit where there is nothing to explain."""
    if len(argv) != 2:
        raise app.UsageError("one report, GraphDef or SavedModel, please")
    try:
        document = load_document(Path(argv[1]), _SIZE.value, _DEVICE.value)
        if _MEASURE.value:
            print("\n".join(measure(document)), file=sys.stderr)
        found = [graph for graph in graphs(document) if (_GRAPH.value or "") in graph.name]
        if not found:
            raise StitchError(f"no graph has {_GRAPH.value!r} in its name" if _GRAPH.value else "it holds no graph")
        if _HTML.value and not _WHY.value:
            write_page(found, Path(_HTML.value))
            print(f"drawn: {_HTML.value}", file=sys.stderr)
        print("\n".join(_lines(document, found)).strip() or "no such op")
    except StitchError as error:
        raise SystemExit(f"explain: {error}") from None
    except BrokenPipeError:  # the reader has seen enough: `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _lines(document: Document, found: Sequence[Graph]) -> Iterator[str]:
    for graph in found:
        yield from answers(graph, _WHY.value) if _WHY.value else (*table(graph, _OP.value), "")
    elsewhere = [f for f in document["fallbacks"] if not f["where"].startswith("region ")]  # others: in the table
    for entry in [*elsewhere, *document.get("remarks", [])]:
        yield f"{entry['stage']} of {entry['where']}: {entry['reason']} ({entry['count']} times)"


if __name__ == "__main__":
    app.run(main)
