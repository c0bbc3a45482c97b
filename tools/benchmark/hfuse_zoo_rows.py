"""Rows of models with and without kernels in shared blocks, and the page that is made of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tools.benchmark.workers import Worker

WARM_UP = 3
"""Steps at the beginning of a turn that are not timed."""
TURN_SECONDS = 0.3

Row = dict[str, Any]


class Clock:
    """Seconds that are left, of which the end of the work needs some."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self, less: float = 0.0) -> float:
        return max(1.0, self._end - time.monotonic() - less)

    def over(self) -> bool:
        return time.monotonic() > self._end


def compared(row: Row, pair: Sequence[Worker], rounds: int, clock: Clock) -> Row:
    """Milliseconds of a step without and with shared blocks, in turns, and their ratio in each pair of turns."""
    times: tuple[list[float], list[float]] = ([], [])
    steps = [max(5, int(TURN_SECONDS * 1e3 / one.ask("run", 5, limit=clock.left())["ms"])) for one in pair]
    results = [0.0, 0.0]
    for turn in range(rounds):
        for i in ((0, 1) if turn % 2 == 0 else (1, 0)):
            pair[i].ask("run", WARM_UP, limit=clock.left())
            answer = pair[i].ask("run", steps[i], limit=clock.left())
            times[i].append(answer["ms"])
            results[i] = answer["result"]
        if clock.over():
            break
    ratios = [without / with_ for without, with_ in zip(*times, strict=True)]
    counts = pair[1].ask("launches", limit=30)
    return row | {"ms": [statistics.median(own) for own in times], "ratios": ratios, "with": counts, "results": results}


def summary(rows: Sequence[Row]) -> str:
    """In how many steps kernels share blocks, and what the best gains."""
    run = [row for row in rows if "failed" not in row]
    chosen = [row for row in run if row.get("with", {}).get("shared")]
    text = f"In {len(chosen)} of {len(run)} steps kernels share blocks."
    if chosen:
        best = max(chosen, key=lambda row: statistics.median(row["ratios"]))
        gains = [statistics.median(row["ratios"]) for row in chosen]
        text += (f" Time of a step without over with: {statistics.geometric_mean(gains):.3f} (geometric mean), at most "
                 f"{max(gains):.3f} ({best['case']}).")
    timed = [found for row in run for found in row.get("rows", ())]
    faster = [found for found in timed if found["faster"]]
    return text + (f" Of {sum(row.get('proposed', 0) for row in run)} pairs that the model proposed, and larger sets, "
                   f"{len(timed)} were timed and {len(faster)} were faster.")


def page(document: Mapping[str, Any]) -> str:
    """Markdown."""
    rows: Sequence[Row] = document["rows"]
    machine = ", ".join(f"{key} {value}" for key, value in document["machine"].items())
    lines = ["# Kernels in shared blocks (HFuse), in the models of the zoos", "", machine + ".", "",
             f"Made by `{document['command']}`.", "", summary(rows), "",
             "Launches: of the step's regions, each region of one structure once. Able: kernels alone in their launch "
             "that another one of their round could share blocks with. Ratio: time of a step without over with, in "
             "pairs of turns, the median with the least and the most.", "",
             "| step | launches | able, rounds | proposed, timed, faster | launches that share | ms without, with "
             "| ratio |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['case']} | failed: {row['failed'][:200]} | | | | | |")
            continue
        counts, ratios = row["counts"], row.get("ratios")
        times = " ".join(f"{ms:.3f}" for ms in row.get("ms", ())) or row.get("not_compared", "-")
        ratio = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})" if ratios else "-"
        lines.append(f"| {row['case']} | {counts['launches']} | {counts['able']}, {counts['rounds']} | "
                     f"{row['proposed']}, {len(row['rows'])}, {sum(found['faster'] for found in row['rows'])} | "
                     f"{row.get('with', {}).get('shared', 0)} | {times} | {ratio} |")
    lines += ["", "## What was measured", "",
              "| step | families | predicted gain us | apart us | together us | threads | blocks asked for | gain % |",
              "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        for found in row.get("rows", ()):
            gain = 100 * (found["apart_us"] / found["together_us"] - 1)
            lines.append(f"| {row['case']} | {' + '.join(found['families'])} | {found['predicted_us']:.2f} | "
                         f"{found['apart_us']:.2f} | {found['together_us']:.2f} | "
                         f"{' + '.join(map(str, found['threads']))} | {found['resident'] or 'no bound'} | {gain:.1f} |")
    return "\n".join(lines) + "\n"
