"""benchmarks/conversion.md from its rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from tools.benchmark.conversion_check import FORMS, Result
from tools.benchmark.conversion_host import host_lines

MOST_LOAD = 1.2
"""Of the original's time: the most that loading should take."""


def page(document: Result) -> str:
    """The rows as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    checked = [row for row in document["results"] if "check" in row or "error" in row]
    timed = [row for row in document["results"] if "times" in row]
    return "\n".join(["# Converted SavedModels", "", f"{machine}.", "", f"Made by `{document['command']}`.", "",
                      *(_equality(checked) if checked else []), *(_speed(timed) if timed else []),
                      *(host_lines(document["host"]) if "host" in document else [])])


def _equality(rows: Sequence[Result]) -> list[str]:
    good = [row for row in rows if "error" not in row]
    lines = ["## The same outputs", "",
             f"{len(good)} of {len(rows)} models convert with all of their regions, verify (`--verify_only`), and give "
             "the same outputs when they are loaded in a process that has the op library and cannot import tf_stitch. "
             "Differences are relative, as in the certificate: the largest of the certificate, and of the other "
             "process.", "",
             "| model | by | ops | in kernels | kernels | left | regions run by kernels | by their own nodes | "
             "largest differences |", "| --- " * 9 + "|"]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['model']} | {row['by']} | {row['error']} |" + " |" * 6)
            continue
        found, counts = row["check"], row["check"]["coverage"]
        lines.append(f"| {row['model']} | {row['by']} | {counts['ops']} | {counts['in_kernels']} | "
                     f"{counts['kernels']} | {sum(counts['left'].values())} | {found['runs']} | {found['fallbacks']} | "
                     f"{found['worst']:.0e}, {found['elsewhere']:.0e} |")
    return [*lines, ""]


def _speed(rows: Sequence[Result]) -> list[str]:
    calls, slower = [ratio(row, per_turn) for row in rows], [1 / ratio(row, loads) for row in rows]
    least = [fastest(row, FORMS[0]) / fastest(row, FORMS[1]) for row in rows]
    lines = ["## Speed", "",
             f"Of {len(rows)} models a call is {statistics.geometric_mean(calls):.2f} times as fast as the original's "
             f"(geometric mean; {min(calls):.2f} to {max(calls):.2f}); by the fastest calls, which other programs "
             f"disturb least, {statistics.geometric_mean(least):.2f} times ({min(least):.2f} to {max(least):.2f}). "
             f"Loading takes "
             f"{statistics.geometric_mean(slower):.2f} of the original's time ({min(slower):.2f} to {max(slower):.2f}; "
             f"{sum(one > MOST_LOAD for one in slower)} models more than {MOST_LOAD}).", "",
             "Milliseconds of a call: medians of the medians of the turns, and the lowest and highest of these; "
             "original and converted model run in turns, in processes of their own. Ratios are medians over the turns. "
             "Load: `tf.saved_model.load`. Conversion: seconds of the whole command by the clock, and of processors, "
             "with nothing in the cache but the native op, and with what that left. Regions that lost on the machine "
             "that converts were given up.", "",
             "| model | original, ms | converted, ms | original / converted | fastest calls, ms | "
             "original / converted | load, s | converted / original | conversion, s: cold / warm | of processors | "
             "ops | in kernels |",
             "| --- " * 12 + "|"]
    for row in rows:
        found, counts = row["times"], row["times"]["kept"]
        lines.append(f"| {row['model']} | {_spread(per_turn(row, FORMS[0]))} | {_spread(per_turn(row, FORMS[1]))} | "
                     f"{ratio(row, per_turn):.2f} | {1e3 * fastest(row, FORMS[0]):.3g}, "
                     f"{1e3 * fastest(row, FORMS[1]):.3g} | {fastest(row, FORMS[0]) / fastest(row, FORMS[1]):.2f} | "
                     f"{statistics.median(loads(row, FORMS[0])):.2f} | "
                     f"{1 / ratio(row, loads):.2f} | {_pair(found['conversion'])} | {_pair(found['processor'])} | "
                     f"{counts['ops']} | {counts['in_kernels']} |")
    return [*lines, ""]


def ratio(row: Result, of: Callable[[Result, str], Sequence[float]]) -> float:
    """The median of the ratios of the original's time to the converted one's, turn by turn."""
    return statistics.median(a / b for a, b in zip(of(row, FORMS[0]), of(row, FORMS[1]), strict=True))


def per_turn(row: Result, form: str) -> list[float]:
    """Median seconds of a call in each turn."""
    return [statistics.median(turn) for turn in row["times"][form]["turns"]]


def fastest(row: Result, form: str) -> float:
    """Seconds of the fastest call."""
    return min(second for turn in row["times"][form]["turns"] for second in turn)


def loads(row: Result, form: str) -> list[float]:
    """Seconds of loading in each turn."""
    return list(row["times"][form]["loads"])


def _pair(seconds: Mapping[str, float]) -> str:
    return f"{seconds['cold']:.1f} / {seconds['warm']:.1f}"


def _spread(seconds: Sequence[float]) -> str:
    middle, low, high = (1e3 * f(seconds) for f in (statistics.median, min, max))
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"
