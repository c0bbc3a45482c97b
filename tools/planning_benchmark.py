"""How long planning takes and what plans are predicted to take: generated graphs of growing size, and regions of real
models. No device is needed.

Each graph is planned twice: with times made up from bytes ("made-up": the planner alone), and with the product's own
("own": every pattern is scheduled for an H200 and, in regions of up to 2,000 nodes, lowered if it is chosen).
Writes benchmarks/raw/planning.json.gz and, from it, planning.md.

    python -m tools.planning_benchmark
    python -m tools.planning_benchmark --sizes=1000 --graphs=/tmp/dumps --out=/tmp/try.json
    python -m tools.planning_benchmark --sizes= --times=own --graphs=/tmp/networks --out=/tmp/after.json \
        --against=/tmp/before.json                                  prints ratios to what another tree wrote, too

Real graphs are texts of tensor graphs as TF_STITCH_DUMP_DIR writes them (region_*.graph.0_bound.txt), and all regions
of each text that tools/zoo_graphs.py or tools/region_counts.py made for a GPU.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from absl import app, flags

from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.text_parser import parse_graph, parse_graphs
from tools.benchmark.machine import describe_cpu
from tools.benchmark.planned_regions import Result, comparison, measure
from tools.benchmark.planning_graphs import GENERATORS
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, read_rows, write_rows

ROOT = Path(__file__).resolve().parents[1]


_SIZES = flags.DEFINE_list("sizes", ["1000", "10000", "100000"], "nodes of the generated graphs")
_KINDS = flags.DEFINE_list("kinds", list(GENERATORS), "generated graphs")
_TIMES = flags.DEFINE_list("times", ["made-up", "own"], "what gives the times of patterns")
_GRAPHS = flags.DEFINE_string("graphs", str(ROOT / "tests" / "planning" / "graphs"), "a folder of real graphs")
_OUT = flags.DEFINE_string("out", str(raw_rows("planning")), "raw rows; the page goes to benchmarks/")
_AGAINST = flags.DEFINE_string("against", None, "raw rows to compare with")


def graphs() -> Iterator[tuple[str, Sequence[TensorGraph]]]:
    """Names, and the regions that each stands for."""
    for kind in _KINDS.value:
        for size in _SIZES.value:
            yield f"{kind} {size}", [GENERATORS[kind](int(size))]
    for path in sorted(Path(_GRAPHS.value).rglob("*.txt")):
        if path.parent.name == "graphs" or ".graph.0_bound" in path.name:
            yield path.name.removesuffix(".txt").removesuffix(".graph.0_bound"), [parse_graph(path.read_text())]
    for path in sorted(Path(_GRAPHS.value).rglob("*.region.txt.gz")):
        yield path.name.partition(".")[0], list(parse_graphs(gzip.decompress(path.read_bytes()).decode()))


def table(document: Result) -> str:
    """The result as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    lines = ["# Planning time", "", f"{machine}.", "", f"Made by `{document['command']}`.", "",
             "`made-up`: times of patterns from bytes alone, the planner itself. `own`: the product's for an H200: "
             "every pattern is scheduled, and in regions of up to 2,000 nodes what is chosen is lowered. Nodes are "
             "those that need a kernel, after the tensor passes. Predicted: the sum over all kernels and library "
             "calls. Processor seconds leave out what other programs took from the machine.", "",
             "| graph | times | nodes | seconds | processor seconds | us per node | predicted us | kernels | greedy "
             "| parts | status | gap |", "| --- " * 12 + "|"]  # fmt: skip
    for r in document["results"]:
        lines.append(f"| {r['graph']} | {r['times']} | {r['nodes']} | {r['seconds']:.2f} | "
                     f"{r['processor_seconds']:.2f} | {r['processor_seconds'] / r['nodes'] * 1e6:.0f} | "
                     f"{r['predicted_us']:.0f} | {r['kernels']} | {r['greedy_kernels']} | {r['parts']} | "
                     f"{r['status']} | {r['gap']:.1%} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def main(_: Sequence[str]) -> None:
    out = Path(_OUT.value)
    command = command_line(sys.argv)
    document: Result = {"machine": describe_cpu(), "command": command, "results": []}
    for name, regions in graphs():
        for which in _TIMES.value:
            result = measure(name, regions, which)
            document["results"].append(result)
            print(f"{name}, {which}: {result['nodes']} nodes, {result['seconds']:.2f} s, predicted "
                  f"{result['predicted_us']:.0f} us", file=sys.stderr, flush=True)
            write_rows(out, document)
    page_of(out).write_text(table(document))
    print(table(document))
    if _AGAINST.value:
        print(comparison(document["results"], read_rows(Path(_AGAINST.value))["results"]))


if __name__ == "__main__":
    app.run(main)
