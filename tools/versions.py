"""Trains the demo's model on several versions of TensorFlow and Python: what tools/versions.sh runs.

Each version gets a virtual environment of its own, with the last commit installed in it: what else lies in the tree
does not count. Its row in benchmarks/versions.csv replaces the one before, and the page is written from all rows.
What one version has built serves the next ones of the run, where it is the same: kernels, and the native libraries of a
TensorFlow version, which serve both of its distributions.
Imports nothing but Python itself: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from tools.compare_runs import TOLERANCES, worst_difference

ROOT = Path(__file__).parents[1]
SCRIPT = "models/scripts/digits_encoder.py"
STEPS = 50
_PYTHONS = {"2.16.2": "3.10", "2.17.1": "3.11", "2.18.1": "3.12", "2.19.1": "3.12", "2.20.0": "3.13", "2.21.0": "3.13"}
"""The last release of each minor version, and a Python that it has wheels for."""
WANTED = tuple(f"{name}=={version}@{python}" for version, python in _PYTHONS.items()
               for name in ("tensorflow", "tensorflow-cpu"))
"""Requirement and Python version."""
_VERSIONS = "import importlib.metadata as m, sys; print(sys.version.split()[0], m.version('keras'), m.version('numpy'))"


@dataclass(frozen=True)
class Row:
    """What one version gave; `verdict` is "same", or what went wrong.

    Attributes:
        install_s, build_s: seconds that pip took, and `import tensorflow` with the build of the native libraries.
        difference: largest relative difference of a loss.
        speedup: plain over stitched milliseconds of a train step.
        date, commit: when it was run, and of which commit.
    """

    tensorflow: str
    python: str
    keras: str = ""
    numpy: str = ""
    install_s: float = 0.0
    build_s: float = 0.0
    regions: int = 0
    fallbacks: int = 0
    difference: float = 0.0
    speedup: float = 0.0
    verdict: str = ""
    date: str = ""
    commit: str = ""


class VersionFailed(Exception):
    """A step that did not work; the message is the last line that says why."""


def compare(plain: dict[str, Any], stitched: dict[str, Any], report: dict[str, Any] | None) -> dict[str, Any]:
    """The fields of a Row that follow from two runs and the report of the second."""
    losses = plain["losses"], stitched["losses"]
    agree = len(losses[0]) == len(losses[1]) and all(
        worst_difference(losses[0][:steps], losses[1][:steps]) <= tolerance for steps, tolerance in TOLERANCES)
    regions, fallbacks = (report or {}).get("regions", []), (report or {}).get("fallbacks", [])
    if not regions:
        verdict = "nothing was stitched"
    elif {region["wrap"] for region in regions} != {"native"}:
        verdict = "no native op"
    else:
        verdict = "same" if agree else "DIFFERENT"
    return {"regions": len(regions), "fallbacks": len(fallbacks), "verdict": verdict,
            "difference": worst_difference(*losses) if len(losses[0]) == len(losses[1]) else float("inf"),
            "speedup": plain["steady_step_ms"] / stitched["steady_step_ms"]}


def read_rows(path: Path) -> list[Row]:
    """Of a CSV file; none where it is missing.

    Raises:
        KeyError: a column of it is not a Row's.
    """
    if not path.exists():
        return []
    kinds: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float}
    kind_of = {field.name: kinds[str(field.type)] for field in fields(Row)}
    with path.open(newline="") as file:
        return [Row(**{name: kind_of[name](value) for name, value in row.items()}) for row in csv.DictReader(file)]


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """As CSV, with a line of names."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, rows))


def updated(rows: Iterable[Row], new: Row) -> list[Row]:
    """The rows with a new one for its requirement, in the order of WANTED; others come last."""
    order = [wanted.partition("@")[0] for wanted in WANTED]
    found = [*(row for row in rows if row.tensorflow != new.tensorflow), new]
    return sorted(found, key=lambda row: order.index(row.tensorflow) if row.tensorflow in order else len(order))


def page(rows: Iterable[Row]) -> str:
    """Markdown."""
    names = [field.name for field in fields(Row)]
    lines = ["| " + " | ".join(name.replace("_s", ", s") for name in names) + " |", "|" + " --- |" * len(names),
             *("| " + " | ".join(_cell(getattr(row, name)) for name in names) + " |" for row in rows)]
    return f"""# Versions of TensorFlow and Python

`tools/versions.sh` trains the demo's encoder for {STEPS} steps on each version, in a fresh virtual environment with the
commit installed, without and with `TF_STITCH=1`. `build, s` is the first `import tensorflow`, with the build of the
native libraries unless they were there: they serve both distributions of a version. Kernels are those that the version
before has built, where they are the same. `difference` is the largest relative difference of a loss. `speedup` is of a
training step, from one run of each kind on a machine that may be busy: too little to compare versions by. The rows
are in [versions.csv](versions.csv).

""" + "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    return f"{value:.2g}" if isinstance(value, float) and value < 10 else (
        f"{value:.0f}" if isinstance(value, float) else str(value))  # fmt: skip


def measure(wanted: str, folder: Path, commit: str, built: Path) -> Row:
    """Installs one version and a commit into `folder` and runs the demo's script.

    Args:
        built: a cache folder with what other versions have built, to which this one's is added.
    """
    requirement, _, version = wanted.partition("@")
    row: dict[str, Any] = {"tensorflow": requirement, "python": version, "date": str(dt.date.today()), "commit": commit}
    try:
        python, tree = _make_environment(version, folder), _check_out(commit, folder)
        shutil.copytree(built, folder / "cache")
        row["install_s"] = _install(python, requirement, tree)
        row["python"], row["keras"], row["numpy"] = _run([python, "-c", _VERSIONS]).split()
        variables = {"TF_STITCH_CACHE": str(folder / "cache"), "TF_STITCH": "1", "TF_STITCH_ASYNC": "0"}
        start = time.monotonic()
        _run([python, "-c", "import tensorflow"], **variables)
        row["build_s"] = time.monotonic() - start
        results = {}
        for name, more in (("plain", {}), ("stitched", {**variables, "TF_STITCH_REPORT": str(folder)})):
            out = folder / f"{name}.json"
            _run([python, str(tree / SCRIPT), "--steps", str(STEPS), "--out", str(out)], **more)
            results[name] = json.loads(out.read_text())
        report = folder / "report.json"
        row |= compare(results["plain"], results["stitched"],
                       json.loads(report.read_text()) if report.exists() else None)
        for name in ("kernels", "plans", "native"):
            shutil.copytree(folder / "cache" / name, built / name, dirs_exist_ok=True)
    except VersionFailed as error:
        row["verdict"] = str(error).replace("|", "/")
    return Row(**row)


def _make_environment(version: str, folder: Path) -> str:
    """The Python of a new virtual environment, of a version or (where none is given) of this one."""
    candidate = shutil.which(f"python{version}") if version else sys.executable
    if candidate and subprocess.run([candidate, "-c", "import venv"], capture_output=True).returncode == 0:
        _run([candidate, "-m", "venv", str(folder / "venv")])
        return str(folder / "venv" / "bin" / "python")
    raise VersionFailed(f"no python{version} here")


def _check_out(commit: str, folder: Path) -> Path:
    """The tree of a commit, in a folder of its own."""
    tree = folder / "tree"
    tree.mkdir()
    _run(["git", "-C", str(ROOT), "archive", "--output", str(folder / "tree.tar"), commit])
    shutil.unpack_archive(folder / "tree.tar", tree)
    return tree


def _install(python: str, requirement: str, tree: Path) -> float:
    """Seconds."""
    start = time.monotonic()
    # Python compiles what is imported, a tenth of what is installed.
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    _run([*pip, requirement])
    _run([*pip, "--editable", f"{tree}[demo]", requirement])
    return time.monotonic() - start


def _run(command: list[str], **variables: str) -> str:
    """Standard output of a program in an environment without this one's TF_STITCH_* variables."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("TF_STITCH") and name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", **variables}
    try:
        run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1800)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VersionFailed(f"{command[0]}: {error}") from error
    if run.returncode != 0:
        lines = [line for line in run.stderr.splitlines() if line.strip()] or [f"exit {run.returncode}"]
        raise VersionFailed(lines[-1].strip())
    return run.stdout


def main() -> int:
    """The exit status: 0 if all gave the same losses."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("versions", nargs="*", default=WANTED, help="requirement, @ and the Python: " + WANTED[0])
    flags.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "versions.md")
    flags.add_argument("--folder", type=Path, help="for the environments, one at a time (2 GB); the system's for /tmp")
    flags.add_argument("--built", type=Path, help="folder for what versions have built, kept for another run")
    arguments = flags.parse_args()
    commit = _run(["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]).strip()
    data, same = arguments.out.with_suffix(".csv"), True
    new_folder = partial(tempfile.TemporaryDirectory, prefix="tf_stitch_version.", dir=arguments.folder)
    with new_folder() as own:
        built = arguments.built or Path(own)
        built.mkdir(exist_ok=True)
        for wanted in arguments.versions:
            with new_folder() as folder:
                row = measure(wanted, Path(folder), commit, built)
            print(", ".join(f"{name} {_cell(value)}" for name, value in asdict(row).items()), flush=True)
            rows = updated(read_rows(data), row)
            write_rows(rows, data)
            arguments.out.write_text(page(rows))
            same &= row.verdict == "same"
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
