"""Says for every op of a graph which kernel computes it, at what cost, or why TensorFlow still does.

    TF_STITCH=1 TF_STITCH_REPORT=/tmp/stitch python train.py; python tools/explain.py /tmp/stitch
    python tools/explain.py /tmp/stitch --op='*layer_norm*' --html=/tmp/plan.html
    python tools/explain.py saved_model_folder --size=32
    python tools/explain.py graph.pb --device=h200

A SavedModel (its signatures) or a GraphDef is analysed without being run; the TF_STITCH_* variables count there, too.
Sizes that only a run would tell, such as a batch, are --size; without it regions with such sizes are not planned.
The times and bytes of an op are those of its kernel, which other ops share.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from explaining.load import load_document  # noqa: E402
from explaining.page import write_page  # noqa: E402
from explaining.rows import graphs  # noqa: E402
from explaining.text import table  # noqa: E402
from tf_stitch.errors import StitchError  # noqa: E402

_OP = flags.DEFINE_string("op", None, "only ops whose names match this glob")
_GRAPH = flags.DEFINE_string("graph", None, "only graphs whose names have this in them")
_HTML = flags.DEFINE_string("html", None, "also draw the graphs into this file, a page that needs nothing else")
_SIZE = flags.DEFINE_integer("size", None, "analysis: stands for sizes known at run time only", lower_bound=1)
_DEVICE = flags.DEFINE_enum("device", "cpu", ["cpu", "h200"], "analysis: what to plan for")


def main(argv: Sequence[str]) -> None:
    """Raises SystemExit where there is nothing to explain."""
    if len(argv) != 2:
        raise app.UsageError("one report, GraphDef or SavedModel, please")
    try:
        document = load_document(Path(argv[1]), _SIZE.value, _DEVICE.value)
        found = [graph for graph in graphs(document) if (_GRAPH.value or "") in graph.name]
        lines = [line for graph in found for line in (*table(graph, _OP.value), "")]
        print("\n".join(lines).strip() or "no such op")
        for entry in document["fallbacks"]:
            if not entry["where"].startswith("region "):
                print(f"{entry['stage']} of {entry['where']}: {entry['reason']} ({entry['count']} times)")
        if _HTML.value:
            write_page(found, Path(_HTML.value))
            print(f"drawn: {_HTML.value}", file=sys.stderr)
    except StitchError as error:
        raise SystemExit(f"explain: {error}") from None


if __name__ == "__main__":
    app.run(main)
