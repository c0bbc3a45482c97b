"""`tf_stitch explain`: says where a run's time goes, and of every op which kernel computes it, or why TensorFlow does.

  tf_stitch run --report=/tmp/stitch train.py        # or TF_STITCH=1 TF_STITCH_REPORT=/tmp/stitch python train.py
  tf_stitch explain /tmp/stitch                      # one screen
  tf_stitch explain /tmp/stitch --full               # every op; and draws explain.html
  tf_stitch explain /tmp/stitch --source=train.py:31 # what became of a line
  tf_stitch explain /tmp/stitch --why='*layer_norm*' # all that is known of some ops
  tf_stitch explain /tmp/stitch --memory             # bytes alive over a step, and whose they are
  tf_stitch explain /tmp/stitch --measure            # times every kernel here, alone
  tf_stitch explain saved_model_folder --size=32
  tf_stitch explain graph.pb --device=h200

A SavedModel (its signatures) or a GraphDef is analysed without being run; the TF_STITCH_* variables count there, too.
Sizes that only a run would tell, such as a batch, are --size; without it regions with such sizes are not planned.
The times and bytes of an op are those of its kernel, which other ops share.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from absl import flags

from tf_stitch.cli.commands import parse, wrong
from tf_stitch.cli.explain.branch_text import branch_lines
from tf_stitch.cli.explain.load import Document, load_document
from tf_stitch.cli.explain.memory import memory_lines, region_memories
from tf_stitch.cli.explain.page import write_page
from tf_stitch.cli.explain.rows import Graph, graphs
from tf_stitch.cli.explain.summary import summary
from tf_stitch.cli.explain.text import is_of, table
from tf_stitch.cli.explain.why import answers
from tf_stitch.errors import StitchError

_MOST_FILES = 8


def _define() -> flags.FlagValues:
    values = flags.FlagValues()

    def text(name: str, default: str | None, help: str) -> None:
        flags.DEFINE_string(name, default, help, flag_values=values)

    text("op", None, "list only ops whose names match this glob (* also matches /)")
    text("source", None, "list only ops of this line of the program, as train.py:31, or of a file")
    text("why", None, "instead of the list, all that is known of ops whose names match this glob")
    text("graph", None, "only graphs whose names have this in them")
    text("html", None, "file for the drawing, a page that needs nothing else; explain.html with --full; empty: none")
    flags.DEFINE_boolean("full", False, "every graph, region, kernel and op", flag_values=values)
    flags.DEFINE_boolean("memory", False, "instead of the list, memory of the kernels: the curve over a step, the "
                         "layers and lines that hold most at its peak, and the least that any order would need",
                         flag_values=values)
    flags.DEFINE_boolean("measure", False, "run every kernel by itself on this machine and tell its time",
                         flag_values=values)
    flags.DEFINE_integer("size", None, "analysis: stands for sizes known at run time only", lower_bound=1,
                         flag_values=values)
    flags.DEFINE_enum("device", "cpu", ["cpu", "h200"], "analysis: what to plan for", flag_values=values)
    return values


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 where there is nothing to explain, USAGE where a flag names none of it."""
    values = _define()
    rest = parse("explain", __doc__, values, arguments)
    if len(rest) != 1:
        return wrong("explain", "one report, GraphDef or SavedModel, please")
    try:
        document = load_document(Path(rest[0]), values.size, values.device)
        if values.measure:
            print("\n".join(measured(document)), file=sys.stderr)
        found = [graph for graph in graphs(document) if (values.graph or "") in graph.name]
        if not found:
            raise StitchError(f"no graph has {values.graph!r} in its name" if values.graph else "it holds no graph")
        if problem := _nothing_matches(found, values):
            return wrong("explain", problem)
        html = ("explain.html" if values.full else "") if values.html is None else values.html
        if html and not values.why:
            write_page(found, Path(html), region_memories(document, found))
            print(f"drawn: {html}", file=sys.stderr)
        print("\n".join(_lines(document, found, values)).strip() )
    except StitchError as error:
        print(f"explain: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader has seen enough: `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _nothing_matches(found: Sequence[Graph], values: flags.FlagValues) -> str:
    """What is wrong with flags that no op fits; "" where one does, or all are wanted."""
    ops = [op for graph in found for op in graph.ops]
    names = values.why or values.op
    if names and not any(fnmatchcase(op.name, names) for op in ops):
        return f"no op has a name like {names!r}"
    if not values.source or values.why or any(is_of(op, values.source) for op in ops):
        return ""
    files = sorted({op.source.rpartition(":")[0] for op in ops if op.source})
    known = f"ops here come from {', '.join(files[:_MOST_FILES])}" + (" and others" if files[_MOST_FILES:] else "") \
        if files else "it is not known of any op here where it was made"
    return f"no op was made at {values.source}; {known}"


def measured(document: Document) -> Iterator[str]:
    """As measure.measure, whose imports take a second that others need not wait."""
    from tf_stitch.cli.explain.measure import measure

    return measure(document)


def _lines(document: Document, found: Sequence[Graph], values: flags.FlagValues) -> Iterator[str]:
    if values.memory:
        yield from memory_lines(region_memories(document, found))
        return
    if values.why:
        for graph in found:
            yield from answers(graph, values.why)
    elif values.op or values.source or values.full:
        for graph in found:
            yield from (*table(graph, values.op, values.source), "")
        if values.full:
            yield from branch_lines(document, [graph.name for graph in found])
    else:
        yield from summary(document, found)
        return
    elsewhere = [f for f in document["fallbacks"] if not f["where"].startswith("region ")]  # others: in the table
    for entry in [*elsewhere, *document.get("remarks", [])]:
        yield f"{entry['stage']} of {entry['where']}: {entry['reason']} ({entry['count']} times)"
