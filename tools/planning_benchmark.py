"""How long planning takes: generated graphs of growing size, and regions of real models. No device is needed.

Each graph is planned twice: with times made up from bytes ("made-up": the planner alone), and with the product's own
("own": every pattern is scheduled for an H200 and, in regions of up to 2,000 nodes, lowered if it is chosen). Writes
benchmarks/raw/planning.json.gz and, from it, planning.md.

    python -m tools.planning_benchmark
    python -m tools.planning_benchmark --sizes=1000 --graphs=/tmp/dumps --out=/tmp/try.json

Real graphs are texts of tensor graphs as TF_STITCH_DUMP_DIR writes them (region_*.graph.0_bound.txt), and the largest
region of each text that tools/zoo_graphs.py made for a GPU.
"""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags

from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import passes
from tf_stitch.device.spec import H200
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.text_parser import parse_graph, parse_graphs
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.pass_manager import run_passes
from tf_stitch.planning.free_nodes import plannable
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.planner import PlanOptions, plan_region
from tools.benchmark.machine import describe_cpu
from tools.benchmark.made_up_times import MadeUpTimes
from tools.benchmark.planning_graphs import GENERATORS
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, write_rows

ROOT = Path(__file__).resolve().parents[1]


_SIZES = flags.DEFINE_list("sizes", ["1000", "10000", "100000"], "nodes of the generated graphs")
_KINDS = flags.DEFINE_list("kinds", list(GENERATORS), "generated graphs")
_TIMES = flags.DEFINE_list("times", ["made-up", "own"], "what gives the times of patterns")
_GRAPHS = flags.DEFINE_string("graphs", str(ROOT / "tests" / "planning" / "graphs"), "a folder of real graphs")
_OUT = flags.DEFINE_string("out", str(raw_rows("planning")), "raw rows; the page goes to benchmarks/")

Result = dict[str, Any]


def graphs() -> Iterator[tuple[str, TensorGraph]]:
    for kind in _KINDS.value:
        for size in _SIZES.value:
            yield f"{kind} {size}", GENERATORS[kind](int(size))
    for path in sorted(Path(_GRAPHS.value).rglob("*.txt")):
        if path.parent.name == "graphs" or ".graph.0_bound" in path.name:
            yield path.name.removesuffix(".txt").removesuffix(".graph.0_bound"), parse_graph(path.read_text())
    for path in sorted(Path(_GRAPHS.value).rglob("*.region.txt.gz")):
        regions = parse_graphs(gzip.decompress(path.read_bytes()).decode())
        yield path.name.partition(".")[0], max(regions, key=lambda graph: len(graph.nodes()))


def measure(name: str, graph: TensorGraph, which: str) -> Result:
    """Seconds of plan_region for one graph, and what came out."""
    graph = run_passes(graph, passes(H200), None)
    times: PatternTimes = MadeUpTimes() if which == "made-up" else PatternCompiler(H200, True)
    start, cpu = time.perf_counter(), time.process_time()
    plan = plan_region(graph, times, LIBRARIES, PlanOptions())
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    report = plan.solver
    assert report is not None
    return {"graph": name, "times": which, "nodes": len(plannable(graph, plan.free)), "seconds": seconds,
            "processor_seconds": cpu, "patterns": len(plan.patterns), "greedy_kernels": report.greedy_kernels,
            "kernels": report.kernels, "parts": report.parts, "candidates": report.candidates,
            "status": report.status, "gap": report.gap}  # fmt: skip


def table(document: Result) -> str:
    """The result as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    lines = ["# Planning time", "", f"{machine}.", "", f"Made by `{document['command']}`.", "",
             "`made-up`: times of patterns from bytes alone, the planner itself. `own`: the product's for an H200: "
             "every pattern is scheduled, and in regions of up to 2,000 nodes what is chosen is lowered. Nodes are "
             "those that need a kernel, after the tensor passes. Processor seconds leave out what other programs took "
             "from the machine.", "",
             "| graph | times | nodes | seconds | processor seconds | us per node | kernels | greedy | parts | status "
             "| gap |", "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for r in document["results"]:
        lines.append(f"| {r['graph']} | {r['times']} | {r['nodes']} | {r['seconds']:.2f} | "
                     f"{r['processor_seconds']:.2f} | {r['processor_seconds'] / r['nodes'] * 1e6:.0f} | {r['kernels']} "
                     f"| {r['greedy_kernels']} | {r['parts']} | {r['status']} | {r['gap']:.1%} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def main(_: Sequence[str]) -> None:
    out = Path(_OUT.value)
    command = command_line(sys.argv)
    document: Result = {"machine": describe_cpu(), "command": command, "results": []}
    for name, graph in graphs():
        for which in _TIMES.value:
            result = measure(name, graph, which)
            document["results"].append(result)
            print(f"{name}, {which}: {result['nodes']} nodes, {result['seconds']:.2f} s", file=sys.stderr, flush=True)
            write_rows(out, document)
    page_of(out).write_text(table(document))
    print(table(document))


if __name__ == "__main__":
    app.run(main)
