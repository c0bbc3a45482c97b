"""Rows of tools/region_benchmark.py: which are there, and their table."""

from __future__ import annotations

from collections.abc import Sequence

from tools.benchmark import workers

Result = workers.Result
BACKENDS = list(workers.BACKENDS.values())
SHORT = {name: short for short, name in workers.BACKENDS.items()} | {"call": "call"}
WORKLOADS = {"encoder_12x768_batch1_length128": ("infer", "train"),
             "encoder_12x768_batch32_length128": ("infer", "train"),
             "encoder_6x512_batch8_length64": ("infer", "train"),
             "mlp_4x256_batch256": ("train",)}  # fmt: skip


def is_done(rows: Sequence[Result], workload: str, mode: str, backends: Sequence[str]) -> bool:
    """Whether the row is there, with these backends, and nothing failed."""
    return any((row["workload"], row["mode"]) == (workload, mode) and not row["failures"]
               and all(f"{SHORT[backend]}_us" in row for backend in backends) for row in rows)  # fmt: skip


def joined(rows: Sequence[Result], more: Sequence[Result]) -> list[Result]:
    """All of them, those of `more` in place of others of the same workload and mode, in the order of WORKLOADS."""
    found = {(row["workload"], row["mode"]): row for row in (*rows, *more)}
    order = list(WORKLOADS)
    return sorted(found.values(), key=lambda row: (order.index(row["workload"]) if row["workload"] in order
                                                   else len(order), row["mode"]))  # fmt: skip


def table(rows: Sequence[Result]) -> str:
    """The result as Markdown."""
    runs = list(dict.fromkeys(map(_run, rows)))
    lines = ["# Whole models on a GPU", "",
             "Microseconds per call: the median of turns, backends interleaved, float32, TF32 as TensorFlow's default. "
             "Another workload, 200 requests of 50 lengths, is in [h200_dynamic](h200_dynamic.md).", "",
             "| workload | mode | TensorFlow | XLA | tf_stitch | a call that does nothing | TensorFlow / tf_stitch "
             "| XLA / tf_stitch | first call s: TensorFlow / XLA / tf_stitch / tf_stitch in a second process "
             "| peak MiB: TensorFlow / XLA / tf_stitch | in the last turn "
             "| CUDA graph launch, us of the host: all / no new addresses | differs by | run |",
             "| --- " * 14 + "|"]  # fmt: skip
    failures: list[str] = []
    for row in rows:
        us = [row.get(f"{name}_us") for name in SHORT.values()]
        cells = [row["workload"], row["mode"], *("-" if u is None else f"{u:.0f}" for u in us)]
        cells += ["-" if u is None or us[2] is None else f"{u / us[2]:.2f}" for u in us[:2]]
        firsts = [row["first_call_s"].get(b, float("nan")) for b in (*BACKENDS, "tf_stitch again")]
        cells.append(" / ".join(f"{seconds:.1f}" for seconds in firsts))
        for peaks in (row["peak_bytes"], row.get("steady_peak_bytes", {})):
            cells.append(" / ".join(f"{peaks[b] / 2**20:.0f}" if b in peaks else "-" for b in BACKENDS))
        cells.append(", ".join(map(_launch_words, filter(lambda g: g["launches"], row["graphs"]))))
        cells += [f"{row['difference'].get('tf_stitch', float('nan')):.0e}", str(runs.index(_run(row)) + 1)]
        lines.append("| " + " | ".join(cells) + " |")
        for backend, failure in row["failures"].items():
            failures += ["", f"{row['workload']} {row['mode']} failed with {backend}:", "", "```", failure, "```"]
    lines += ["", "Runs:", "", *(f"{number}. {run}" for number, run in enumerate(runs, 1)), *failures]
    return "\n".join(lines) + "\n"


def _run(row: Result) -> str:
    """How, where and when a row was measured."""
    machine = ", ".join(f"{key} {value}" for key, value in row["machine"].items())
    turns = f"{row['rounds']} turns of {row['calls']} calls"
    if "turn_seconds" in row:
        turns += f" and {row['turn_seconds']} s at least"
    return f"`{row['command']}`: {turns}; {machine}."


def _launch_words(graphs: Result) -> str:
    """Microseconds of the host for a launch, and for one that found all its addresses."""
    return " / ".join(f"{graphs[f'{which}_ns'] / max(graphs[count], 1) / 1e3:.0f}" if count in graphs else "-"
                      for which, count in (("host", "launches"), ("known", "known")))
