"""Converted SavedModels against their originals: seconds of a call, of loading, and of the conversion itself.

Each model is saved with random weights and converted twice: with nothing in the cache but the native op, and with what
that left. Original and converted one then run in processes of their own, in turns. Writes
benchmarks/raw/conversion.json.gz and, from it, conversion.md. Rows of models that are not named stay as they are.

    python -m tools.conversion_benchmark
    python -m tools.conversion_benchmark --models="MobileNetV2, 1" --models=bert --out=/tmp/try.json
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.convert.inputs import generated
from tf_stitch.convert.saved_model import Signature, read_model
from tf_stitch.convert.sizes import Asked, parse_shapes, shapes_of
from tf_stitch.native.build import STITCH_OP, build_library
from tools.benchmark.conversion_cases import CASES, SAMPLES, Case
from tools.benchmark.machine import describe_cpu
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, read_rows, write_rows
from tools.benchmark.workers import Worker

_MODELS = flags.DEFINE_multi_string("models", list(CASES), "of tools/benchmark/conversion_cases.py")
_TURNS = flags.DEFINE_integer("turns", 7, "of each process")
_SECONDS = flags.DEFINE_float("seconds", 1.0, "of each turn, about")
_OUT = flags.DEFINE_string("out", str(raw_rows("conversion")), "raw rows; the page goes to benchmarks/")
FORMS = ("original", "converted")
MOST_CALLS = 300

Result = dict[str, Any]


def convert(case: Case, signature: Signature, folder: Path) -> Result:
    """Seconds of both conversions, and the report of the second."""
    library = build_library(STITCH_OP, load_config().cache_dir)
    cache = folder / "cache"
    shutil.copytree(library.parent, cache / "native")
    command = [sys.executable, "-m", "tf_stitch", "convert", f"--input_dir={folder / 'original'}",
               f"--output_dir={folder / 'converted'}", "--overwrite", f"--signatures={signature.name}",
               f"--report={folder / 'report.json'}", *(f"--input_shapes={shape}" for shape in shapes(case, signature)),
               *([f"--samples={folder / SAMPLES}"] if (folder / SAMPLES).exists() else [])]
    seconds = {}
    for which in ("cold", "warm"):
        begin = time.perf_counter()
        done = subprocess.run(command, env={**os.environ, "TF_STITCH_CACHE": str(cache)}, capture_output=True,
                              text=True)
        seconds[which] = time.perf_counter() - begin
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
    report = json.loads((folder / "report.json").read_text())
    return {"conversion": seconds, "steps": list(report["seconds"].values()), "coverage": report["counts"],
            "said": report["coverage"], "worst": _worst(report["certificate"])}


def shapes(case: Case, signature: Signature) -> list[str]:
    """Values of --input_shapes."""
    return [f"{signature.inputs[0].name}={shape}" for shape in case.shapes]


def _worst(certificate: Mapping[str, Any]) -> float | None:
    return max((output["worst"] for case in certificate["cases"] for output in case["outputs"]), default=None)


def call_times(signature: Signature, folder: Path) -> Result:
    """Of both forms: seconds of each call by turn, of loading and of the first call."""
    library = build_library(STITCH_OP, load_config().cache_dir)
    workers = {form: Worker("conversion_worker", library, folder / form, signature.name, folder / SAMPLES,
                            backend="tensorflow") for form in FORMS}
    found: dict[str, Result] = {form: {"turns": []} for form in FORMS}
    try:
        first = {form: statistics.median(worker.ask(5)["seconds"]) for form, worker in workers.items()}
        calls = max(5, min(MOST_CALLS, int(_SECONDS.value / max(first.values()))))
        for turn in range(_TURNS.value):
            for form in FORMS if turn % 2 else reversed(FORMS):
                answer = workers[form].ask(calls)
                found[form]["turns"].append(answer.pop("seconds"))
                found[form] |= answer
    finally:
        for worker in workers.values():
            worker.close()
    return found


def measure(name: str) -> Result:
    """A row."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        code = ("import sys, pathlib; from tools.benchmark.conversion_cases import CASES; "
                "CASES[sys.argv[1]].save(pathlib.Path(sys.argv[2]))")
        done = subprocess.run([sys.executable, "-c", code, name, str(folder / "original")], capture_output=True,
                              text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        [signature] = read_model(folder / "original").chosen([case.signature])
        row = {"model": name, **convert(case, signature, folder)}
        if not (folder / SAMPLES).exists():
            asked = Asked(parse_shapes(shapes(case, signature)), {})
            np.savez(folder / SAMPLES, **dict(generated(signature, shapes_of(signature, asked)[0][0]).values))
        return row | call_times(signature, folder)


def per_turn(row: Result, form: str) -> list[float]:
    """Median seconds of a call in each turn."""
    return [statistics.median(turn) for turn in row[form]["turns"]]


def page(document: Result) -> str:
    """The rows as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    lines = ["# Converted SavedModels", "", f"{machine}.", "", f"Made by `{document['command']}`.", "",
             "Milliseconds of a call: medians of the medians of the turns, and the lowest and highest of these; "
             "original and converted model run in turns, in processes of their own. Conversion: seconds of the whole "
             "command, with nothing in the cache but the native op, and with what that left.", "",
             "| model | original, ms | converted, ms | original / converted | load, s: original / converted | "
             "conversion, s: cold / warm | ops | in kernels | kernels | left | largest difference |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in document["results"]:
        if "error" in row:
            lines.append(f"| {row['model']} | {row['error']} |" + " |" * 9)
            continue
        one, other = (per_turn(row, form) for form in FORMS)
        ratio = statistics.median(a / b for a, b in zip(one, other, strict=True))
        counts = row["coverage"]
        lines.append(f"| {row['model']} | {_spread(one)} | {_spread(other)} | {ratio:.2f} | "
                     f"{row['original']['load']:.2f} / {row['converted']['load']:.2f} | "
                     f"{row['conversion']['cold']:.1f} / {row['conversion']['warm']:.1f} | {counts['ops']} | "
                     f"{counts['in_kernels']} | {counts['kernels']} | {sum(counts['left'].values())} | "
                     f"{row['worst']:.1e} |")
    return "\n".join(lines) + "\n"


def _spread(seconds: Sequence[float]) -> str:
    middle, low, high = (1e3 * f(seconds) for f in (statistics.median, min, max))
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def main(_: Sequence[str]) -> None:
    out = Path(_OUT.value)
    before = read_rows(out)["results"] if out.exists() else []
    rows: dict[str, Result] = {row["model"]: row for row in before}
    command = command_line([argument for argument in sys.argv if not argument.startswith("--models")])
    document: Result = {"machine": describe_cpu(), "command": command}
    for name in _MODELS.value:
        try:
            rows[name] = measure(name)
        except RuntimeError as error:
            rows[name] = {"model": name, "error": str(error)}
        document["results"] = [rows[known] for known in CASES if known in rows]
        write_rows(out, document)
        page_of(out).write_text(page(document))
        print(page({**document, "results": [rows[name]]}).splitlines()[-1], file=sys.stderr, flush=True)


if __name__ == "__main__":
    app.run(main)
