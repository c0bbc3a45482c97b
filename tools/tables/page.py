"""The page of results: what was measured where, the zoo, the papers' tables, and the other measurements beside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.benchmark.profitability_facts import profitability_cell
from tools.benchmark.raw_rows import RAW, page_of, read_rows, stem
from tools.tables import results as r
from tools.tables.behind import behind_xla
from tools.tables.results import NotMeasured, Results
from tools.tables.sections import Section

BACKENDS = ("tf", "xla", "stitch")
TOGETHER = "\\*"
"""Marks first calls while other models compiled."""


def page(ours: Sequence[Results], papers: Sequence[tuple[str, Sequence[Section]]], folder: Path, figures: str) -> str:
    """Markdown.

    Args:
        papers: name -> its tables.
        folder: where the page and the other measurements lie.
        figures: the pictures' folder, from there.
    """
    parts = ["# The papers' tables, and the other measurements\n", "This page is made by `python -m tools.tables "
             + " ".join(f"benchmarks/raw/{results.name}.json.gz" for results in ours) + "`.\n",
             files(folder, {results.name for results in ours})]  # fmt: skip
    for results in ours:
        parts += [zoo(results).markdown(figures)]
        if results.is_gpu:
            parts += [behind_xla(results).markdown(figures)]
    for name, sections in papers:
        parts += [f"## {name}\n", *(section.markdown(figures) for section in sections)]
    return "\n".join(parts)


def zoo(ours: Results) -> Section:
    """Every row of a results file."""
    machine = ", ".join(f"{key} {value}" for key, value in ours.rows[0]["machine"].items())
    section = Section(f"Models ({ours.label})", f"`{ours.name}.json`: {machine}. "
                      "Milliseconds a step: median (quartiles), backends in turns in one run. Kernels a step: "
                      "memory-intensive + library + copies. First: seconds of the first call. Peak: MiB, on a GPU "
                      "from the start on / since the first turn, after the warm-up in which the profitability check "
                      "tries TensorFlow's ops. Regions timed against the ops they replaced: how many run those ops "
                      "since, and the largest ratio of the others.", [
                          "model", "mode", "config", "dtype", "TensorFlow", "XLA", "tf_stitch",
                          "TensorFlow / tf_stitch", "XLA / tf_stitch", "kernels: TensorFlow", "XLA", "tf_stitch",
                          "first: TensorFlow", "XLA", "tf_stitch", "peak: TensorFlow", "XLA", "tf_stitch",
                          "losses differ by", "regions timed"])  # fmt: skip
    for row in ours.rows:
        differs = row.get("loss_difference", {}).get("stitch")
        section.add(row["model"], row["mode"], row["config"], row["dtype"], *(_each(row, _milliseconds)),
                    lambda row=row: r.speedup(row, "tf"), lambda row=row: r.speedup(row, "xla"),
                    *_each(row, _kernels), *_each(row, _first), *_each(row, _peak),
                    None if differs is None else f"{differs:.0e}", lambda row=row: _check(row))  # fmt: skip
    plain = [row for row in ours.rows if row["dtype"] == "float32"]
    for over, name in (("xla", "XLA"), ("tf", "TensorFlow")):
        ratios = [r.speedup(row, over) for row in plain if {f"{over}_us", "stitch_us"} <= row.keys()]
        if ratios:
            section.notes.insert(0, f"float32, {len(ratios)} rows: {r.geometric_mean(ratios):.2f} times as fast as "
                                    f"{name} (geometric mean), {min(ratios):.2f} to {max(ratios):.2f}.")  # fmt: skip
    section.notes += _remarks(ours)
    loads = [row["machine"]["load"] for row in ours.rows]
    section.notes.append(f"Load of the machine at the rows' start: {min(loads)} to {max(loads)}.")
    return section


def _remarks(ours: Results) -> list[str]:
    """What has to be known to read the rows."""
    together = max(_together(row) for row in ours.rows)
    remarks = [r.CPU_KERNELS] * (not ours.is_gpu)
    if together > 1:
        remarks.append(f"{TOGETHER} In these rows up to {together} models, each on all backends, compiled at the same "
                       "time (`--together`): not what a first call takes alone.")  # fmt: skip
    late = [" ".join(row[part] for part in ("model", "mode", "dtype")) for row in ours.rows
            if row.get("stitch_settled") and not row["stitch_settled"]["settled"]]  # fmt: skip
    if late:
        remarks.append("Kernels for other sizes were still being built behind the program in the turns of "
                       f"{', '.join(late)}.")  # fmt: skip
    if any((row.get("guard", {}).get("largest_ratio") or 0) > 1 for row in ours.rows):
        remarks.append("A ratio above 1 is of a region that kept its kernels because the ops they replaced were not "
                       "clearly faster: to give way, the kernels' median has to be longer by 3%, and they have to lose "
                       "22 of 30 pairs of timed calls.")  # fmt: skip
    return remarks


def _together(row: r.Row) -> int:
    return int(row.get("plan", {}).get("together", 1))


def _each(row: r.Row, cell: Any) -> list[Any]:
    return [lambda b=b: cell(row, b) for b in BACKENDS]


def _milliseconds(row: r.Row, backend: str) -> str:
    low, high = (us / 1e3 for us in r.field(row, "quartiles_us", backend))
    return f"{r.field(row, 'us', backend) / 1e3:.2f} ({low:.2f}-{high:.2f})"


def _kernels(row: r.Row, backend: str) -> str:
    return "+".join(f"{n:.0f}" for n in r.field(row, "kernels_by_class", backend).values())


def _first(row: r.Row, backend: str) -> str:
    return f"{r.field(row, 'first_us', backend) / 1e6:.1f}" + TOGETHER * (_together(row) > 1)


def _peak(row: r.Row, backend: str) -> str:
    memory = r.field(row, "memory", backend)
    peak = f"{memory.get('gpu_mib', memory['host_mib']):.0f}"
    return f"{peak} / {memory['gpu_steady_mib']:.0f}" if "gpu_steady_mib" in memory else peak


def _check(row: r.Row) -> str:
    r.field(row, "us", "stitch")
    if "guard" not in row:
        raise NotMeasured("regions timed, in rows that were measured before the check's outcomes were kept")
    return profitability_cell(row["guard"])


def files(folder: Path, own: set[str]) -> str:
    """The other measurements of the folder, from their own metadata."""
    lines = ["| file | what | result | made by | where |", "| --- " * 5 + "|"]
    for path in sorted([*folder.glob("*.json"), *(folder / RAW.name).glob("*.json.gz")], key=stem):
        if stem(path) in own:
            continue
        found = read_rows(path)
        rows = found if isinstance(found, list) else [found]
        first = rows[0]
        text = page_of(path).read_text() if page_of(path).exists() else ""
        title = text.partition("\n")[0].lstrip("# ") or first.get("what", "-")
        commands = {row["command"]: None for row in rows if "command" in row}  # rows may come from several runs
        made = "`, `".join(commands) or next(iter(re.findall(r"Made by `([^`]*)`", text)), "-")
        machine = first.get("machine") or {}
        where = machine.get("gpu") or machine.get("cpu") or next(iter(re.findall(r"NVIDIA \w+", text)), "-")
        link = f"[{stem(path)}]({stem(path)}.md)" if text else path.name
        result = first.get("result")
        said = result if isinstance(result, str) else "-"  # others hold their figures there
        lines.append(f"| {link} | {title} | {said} | `{made}` | {where} |")
    if all((folder / f"{name}.md").exists() for name in ("h200_regions", "h200_dynamic")):
        lines += ["", "Of the whole models on a GPU, 200 requests of 50 lengths have a file of their own, "
                  "[h200_dynamic](h200_dynamic.md); the others are in [h200_regions](h200_regions.md)."]  # fmt: skip
    lines += ["", "The rows in raw/ are what was measured; the pages are written from them. Leave the machine alone "
              "while measuring: the load at the start is in the file.\n"]  # fmt: skip
    return "\n".join(lines)
