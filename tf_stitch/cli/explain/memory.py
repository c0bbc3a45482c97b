"""`explain --memory`: how much the kernels of a region have in memory over a step, and who holds it at the peak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from tf_stitch.cli.explain.load import Document
from tf_stitch.cli.explain.rows import Graph, last_builds
from tf_stitch.messages import mib

_COLUMNS = 60
"""Of the curve."""
_MOST = 12
"""Holders that are listed."""
_BARS = " ▁▂▃▄▅▆▇█"
_SCOPES = ("gradient_tape", "StatefulPartitionedCall", "PartitionedCall")


@dataclass(frozen=True)
class RegionMemory:
    """The arena of a region's last executable.

    Attributes:
        alive: bytes at each time of a step.
        peak: the time of the most.
        arena, least, results: bytes of the arena, of what any order of the kernels would need at one time, of outputs.
        holders: layer, line of the user's program ("" if unknown) and bytes at the peak, the most first.
        step_us: predicted microseconds of a step.
        budgets: what fractions of the activations would cost, as the report has it.
    """

    number: int
    alive: tuple[int, ...]
    peak: int
    arena: int
    least: int
    results: int
    holders: tuple[tuple[str, str, int], ...]
    step_us: float = 0.0
    budgets: tuple[Mapping[str, Any], ...] = ()


def region_memories(document: Document, found: Sequence[Graph]) -> list[RegionMemory]:
    """Of the regions of these graphs that have kernels of their own, the largest arena first."""
    source = {op.name: op.source for graph in found for op in graph.ops}
    wanted = {region.number for graph in found for region in graph.regions}
    memories = [_memory(number, build, source) for number, (_, build) in last_builds(document).items()
                if number in wanted and build.get("memory")]
    return sorted(memories, key=lambda one: (-one.arena, one.number))


def memory_lines(memories: Sequence[RegionMemory]) -> Iterator[str]:
    """As text: the curve of each region, and who holds most."""
    if not memories:
        yield "no region has kernels of its own, or the report is of an earlier version"
    for one in memories:
        peak = max(one.alive, default=0)
        yield (f"region {one.number}: {mib(peak)} at most, time {one.peak + 1} of {len(one.alive)}; at least "
               f"{mib(one.least)} in any order of its kernels; arena {mib(one.arena)}, results {mib(one.results)}")
        yield f"  |{curve(one.alive)}|"
        for layer, line, nbytes in one.holders[:_MOST]:
            yield f"  {mib(nbytes):>12} {100 * nbytes / peak:5.1f} %  {layer}{f', {line}' if line else ''}"
        rest = sum(nbytes for _, _, nbytes in one.holders[_MOST:])
        if rest:
            yield f"  {mib(rest):>12} {100 * rest / peak:5.1f} %  {len(one.holders) - _MOST} others"
        yield from budget_lines(one)
        yield ""


def budget_lines(memory: RegionMemory) -> Iterator[str]:
    """What TF_STITCH_MEMORY would cost."""
    if memory.budgets:
        yield f"  TF_STITCH_MEMORY, as predicted; a step of kernels and calls takes {memory.step_us:,.1f} us"
    for point in memory.budgets:
        share = 100 * point["us"] / memory.step_us if memory.step_us else 0.0
        yield (f"  {point['fraction']:4.1f} {mib(point['bytes']):>14} {point['us']:12,.1f} us more ({share:.1f} %)"
               + ("" if point["kept"] else ", the least that was found"))


def layer_of(node: str) -> str:
    """The part of a node's name that says which layer it is of: two scopes at most, and none of TensorFlow's own.

    A gradient's node has its layer's name, after the tape's."""
    scopes = [part for part in node.split("/") if part not in _SCOPES]
    return "/".join(scopes[:-1][:2] or scopes) or "values of no op"


def curve(alive: Sequence[int], columns: int = _COLUMNS) -> str:
    """Bytes over time as a line of bars, the most of each stretch of time."""
    columns, peak = min(columns, len(alive)), max(alive, default=0)
    if not peak:
        return ""
    ends = [len(alive) * i // columns for i in range(columns + 1)]
    return "".join(_BARS[-(-8 * max(alive[a:b]) // peak)] for a, b in pairwise(ends))


def svg(memory: RegionMemory, width: int = 280, height: int = 90) -> str:
    """The curve as a drawing, with a dashed line at what any order would need."""
    top = max(*memory.alive, memory.least, 1)

    def y(nbytes: int) -> float:
        return round(height * (1 - nbytes / top), 1)

    step = width / len(memory.alive)
    points = " ".join(f"{round(i * step, 1)},{y(nbytes)} {round((i + 1) * step, 1)},{y(nbytes)}"
                      for i, nbytes in enumerate(memory.alive))
    return (f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="bytes over a step">'
            f'<polygon points="0,{height} {points} {width},{height}" fill="#9ab"/>'
            f'<line x1="0" x2="{width}" y1="{y(memory.least)}" y2="{y(memory.least)}" stroke="#a33" '
            f'stroke-dasharray="4 3"/></svg>')


def memory_section(memories: Sequence[RegionMemory]) -> str:
    """HTML: a drawing and the holders of each region; "" where no region has memory."""
    shown = [one for one in memories if any(one.alive)]
    if not shown:
        return ""
    parts = [f"<h4>region {one.number}: {mib(max(one.alive))} at most</h4>{svg(one)}<table>" + "".join(
        f"<tr><td>{mib(nbytes)}</td><td>{escape(layer)} {escape(line.rpartition('/')[2])}</td></tr>"
        for layer, line, nbytes in one.holders[:_MOST]) + "</table>" for one in shown]
    return f'<details id="memory"><summary>memory over a step</summary>{"".join(parts)}</details>'


def _memory(number: int, build: dict[str, Any], source: Mapping[str, str]) -> RegionMemory:
    entry = build["memory"]
    held: Counter[tuple[str, str]] = Counter()
    for node, nbytes in entry["holders"]:
        held[layer_of(node), source.get(node, "")] += nbytes
    return RegionMemory(number, tuple(entry["alive"]), entry["peak"], build["arena_bytes"], entry["least_bytes"],
                        entry["results_bytes"], tuple((*where, nbytes) for where, nbytes in held.most_common()),
                        entry.get("step_us", 0.0), tuple(entry.get("budgets", ())))
