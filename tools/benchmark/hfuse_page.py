# ruff: noqa: E501
"""The page of tools/hfuse_benchmark.py, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from tools.benchmark import hfuse_paper
from tools.benchmark.hfuse_cases import CASES, PAIRS

Row = dict[str, Any]


def page(document: Row) -> str:
    """Markdown. The paper's figures stand beside, GTX 1080 Ti / V100."""
    machine = ", ".join(f"{key} {value}" for key, value in document["machine"].items())
    parts = [
        "# Horizontal fusion (HFuse)",
        f"{machine}.",
        f"Made by `{document['command']}`.",
        _result(document["pairs"]),
        _averaged(document),
        "Separate: each kernel in a stream of its own, blocks of 512 threads (mining: 256). Vertical: one kernel behind the "
        "other in the same threads. Even: threads parted in halves. Per cent: time of the separate kernels over time of the "
        "fused one, less 1. Bound: registers of a thread at most, Fig. 6's r0. The kernels are this project's, inputs are "
        "chosen so that all take about the same time, and nothing is merged to fused multiply-adds. The paper's figures: "
        "GTX 1080 Ti / V100.",
        "## Pairs (Fig. 9)",
        *_pairs(document["pairs"], document["kernels"]),
        "## Kernels (Fig. 8)",
        *_kernels(document["kernels"]),
        "## Ratios of the kernels' times (Fig. 7)",
        *_ratios(document),
    ]
    if document["left_out"]:
        parts += ["## Left out", "\n".join(f"- {row['what']}: {row['reason']}" for row in document["left_out"])]
    return "\n\n".join(parts) + "\n"


def percent(row: Row, ms: float | None) -> float | None:
    """How much faster than the separate kernels."""
    return None if ms is None else 100 * (row["streams_ms"] / ms - 1)


def _result(rows: Sequence[Row]) -> str:
    if not rows:
        return "No pair was measured."
    gains = [percent(row, row["best"]["ms"]) for row in rows]
    won = [gain for gain in gains if gain is not None and gain > 0]
    equal = sum(bool(row.get("equal")) for row in rows)
    both = sum(row["best"]["ms"] < min(row["streams_ms"], row["vertical_ms"] or row["streams_ms"]) for row in rows)
    return (
        f"{len(rows)} of {len(PAIRS)} pairs: {len(won)} faster than separate kernels (from {_text(min(gains))} to "
        f"{_text(max(gains))} %), {both} faster than separate and vertically fused ones; {equal} with results that are "
        "bitwise equal to the separate kernels'."
    )


def _averaged(document: Row) -> str:
    """What the paper says of Fig. 7, of the pairs here."""
    points = _points(document)
    means = {pair: _means(own) for pair, own in points.items()}
    faster = [fused for fused, _ in means.values() if fused > 0]
    both = sum(fused > 0 and (vertical is None or fused > vertical) for fused, vertical in means.values())
    if not points:
        return "No ratio was measured."
    numbers = sorted({len(own) for own in points.values()})
    return (
        f"Averaged over {' to '.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))} ratios of the kernels' times: {len(faster)} of "
        f"{len(points)} pairs faster than separate kernels, {both} than vertically fused ones, too; the best by "
        f"{_text(max(fused for fused, _ in means.values()))} %. (Paper: nine of 16; eight and five of 16.)"
    )


def _points(document: Row) -> dict[tuple[str, ...], list[Row]]:
    """Rows of each pair, by the ratio of the kernels' own times."""
    rows = sorted([*document["pairs"], *document["ratios"]], key=_ratio)
    found = {pair: [row for row in rows if tuple(row["pair"]) == pair] for pair in PAIRS}
    return {pair: own for pair, own in found.items() if own}


def _means(rows: Sequence[Row]) -> tuple[float, float | None]:
    """Per cent faster than the separate kernels, over all ratios: fused, and vertically fused."""
    fused, vertical = (
        [gain for row in rows if (gain := percent(row, ms(row))) is not None]
        for ms in (lambda row: row["best"]["ms"], lambda row: row["vertical_ms"])
    )
    return mean(fused), mean(vertical) if vertical else None


def _title(pair: Sequence[str]) -> str:
    return "+".join(CASES[name].title for name in pair)


def _pairs(rows: Sequence[Row], kernels: dict[str, Row]) -> list[str]:
    lines = [
        "| pair | separate ms | vertical % | even % | no bound: threads, % (paper) | bound: threads, registers, % (paper) "
        "| issue slots %: no bound, bound, separate (paper: no bound, bound) | waits for memory %: no bound, bound (paper) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        paper = hfuse_paper.PAIRS.get(tuple(row["pair"]), (("-",) * 3,) * 2)
        free, bounded = row["free"], row["bounded"]
        bound = (
            "no bound below the free one's"
            if bounded is None
            else f"{_threads(bounded)}, {bounded['bound']}, {_text(percent(row, bounded['ms']))}"
        )
        unbounded = "-" if free is None else f"{_threads(free)}, {_text(percent(row, free['ms']))}"
        own = [(kernels.get(name, {}).get("counters") or {}).get("issued") for name in row["pair"]]
        apart = None if None in own else mean(own)
        lines.append(
            f"| {_title(row['pair'])} | {row['streams_ms']:.3f} | {_text(percent(row, row['vertical_ms']))} "
            f"| {_text(percent(row, row['even_ms']))} "
            f"| {unbounded} ({paper[0][0]}) | {bound} ({paper[1][0]}) "
            f"| {_counter(free, 'issued')}, {_counter(bounded, 'issued')}, {_text(apart)} ({paper[0][1]}, {paper[1][1]}) "
            f"| {_counter(free, 'memory')}, {_counter(bounded, 'memory')} ({paper[0][2]}, {paper[1][2]}) |"
        )
    return ["\n".join(lines)]


def _kernels(rows: dict[str, Row]) -> list[str]:
    lines = [
        "| kernel | ms (paper) | registers | issue slots % (paper) | waits for memory % (paper) | occupancy % (paper) |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in rows.items():
        ms, issued, memory, occupancy = hfuse_paper.KERNELS[name]
        lines.append(
            f"| {CASES[name].title} | {row['ms']:.3f} ({ms}) | {row['registers']} "
            f"| {_counter(row, 'issued')} ({issued}) | {_counter(row, 'memory')} ({memory}) "
            f"| {_counter(row, 'occupancy')} ({occupancy}) |"
        )
    return ["\n".join(lines)]


def _ratios(document: Row) -> list[str]:
    """Every point: the ratio of the kernels' own times, and per cent faster than the separate ones."""
    lines = [
        "| pair (* its input changes) | ratio of times: fused %, vertical %, even % | mean: fused, vertical |",
        "| --- | --- | --- |",
    ]
    for pair, own in _points(document).items():
        title = "+".join(CASES[name].title + ("*" if i == own[0]["varied"] else "") for i, name in enumerate(pair))
        texts = [
            f"{_ratio(row):.2f}: {_text(percent(row, row['best']['ms']))}, {_text(percent(row, row['vertical_ms']))}, "
            f"{_text(percent(row, row['even_ms']))}"
            for row in own
        ]
        means = _means(own)
        lines.append(f"| {title} | {'; '.join(texts)} | {_text(means[0])}, {_text(means[1])} |")
    return ["\n".join(lines)]


def _ratio(row: Row) -> float:
    return float(row["alone_ms"][0] / row["alone_ms"][1])


def _threads(chosen: Row) -> str:
    return "+".join(map(str, chosen["threads"]))


def _counter(row: Row | None, name: str) -> str:
    return _text(((row or {}).get("counters") or {}).get(name))


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
