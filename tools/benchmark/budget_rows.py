"""Train steps as planned for an H200 under budgets of memory, and their page."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import planned_kernels
from tf_stitch.config import load_config
from tf_stitch.device.spec import H200
from tf_stitch.jit.collector import collector_paused
from tools.benchmark.markdown import table
from tools.benchmark.networks import built

if TYPE_CHECKING:
    from tf_stitch.graph.clustering.region_graph import RegionGraph

MIB = 1 << 20
HEADER = ("case", "budget", "regions", "MiB", "predicted ms", "values again", "in pieces", "planning, s")
ABOUT = """Predicted ms: of all kernels and library calls of a step, one after the other. MiB: what kernels of the
largest region hand to each other takes at one time at most, without variables, inputs and results. Values again: that
many more kernels and calls than without a budget. In pieces: of how many a loss is computed. Planning: processor
seconds with an empty cache, all regions."""

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Planned:
    """A step's regions under a budget."""

    live_bytes: int
    us: float
    patterns: int
    pieces: int
    seconds: float


def regions_of(case: str) -> list[RegionGraph]:
    """Regions of a train step on an H200."""
    import tensorflow as tf

    from tools.benchmark.gpu_regions import regions_of as found

    network, _, batch = built(case)
    given = tuple(tf.TensorSpec(x.shape, x.dtype) for x in network.batch(batch))
    with collector_paused():
        return found(tf.function(network.train, autograph=False).get_concrete_function(*given)).regions.regions


def planned(regions: Sequence[RegionGraph], budget: str) -> Planned:
    """Plans regions under a budget."""
    memory = load_config({"TF_STITCH_MEMORY": budget}).memory
    options = CompileOptions(replace(H200, fused_attention=True), memory=memory)
    start, live, us, patterns, pieces = time.process_time(), 0, 0.0, 0, 1
    for region in regions:
        with collector_paused():
            kernels = planned_kernels(region.graph, region.input_keys, region.variable_keys, options)
        times = PatternCompiler(options.device, options.aligned)
        live, patterns = max(live, kernels.buffers.live_bytes), patterns + len(kernels.plan.patterns)
        us += sum(times.exact(pattern) or 0.0 for pattern in kernels.plan.patterns)
        pieces = max(pieces, kernels.pieces[1] if kernels.pieces else 1)
    return Planned(live, us, patterns, pieces, time.process_time() - start)


def rows(case: str, budgets: Sequence[str]) -> Iterator[Row]:
    """A row for each budget of a case of tools.memory_peaks."""
    regions = regions_of(case)
    whole = planned(regions, "auto")
    for budget in budgets:
        found = whole if budget == "auto" else planned(regions, budget)
        yield {"case": case, "budget": budget, "regions": len(regions), "MiB": found.live_bytes / MIB,
               "predicted ms": found.us / 1e3, "values again": found.patterns - whole.patterns,
               "in pieces": found.pieces, "planning, s": found.seconds}


def cells(row: Row) -> list[str]:
    """A line of the table."""
    forms = {"MiB": ",.0f", "predicted ms": ".2f", "planning, s": ".1f"}
    return [format(row[key], forms.get(key, "")) for key in HEADER]


def page(document: dict[str, Any]) -> Iterator[str]:
    """Lines of Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    made = f"Made by `{document['command']}`."
    yield from ("# Plans under budgets of memory", "", ABOUT, "", f"{machine}.", "", made, "")
    yield from table(HEADER, [cells(row) for row in document["rows"]])
