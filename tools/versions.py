"""Trains the demo's model on several versions of TensorFlow and Python: what tools/versions.sh runs.

Imports nothing but Python itself: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tools.compare_runs import TOLERANCES, worst_difference

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "models" / "scripts" / "digits_encoder.py"
STEPS = 50
WANTED = ("tensorflow-cpu==2.16.2@3.10", "tensorflow-cpu==2.17.1@3.11", "tensorflow-cpu==2.18.1@3.12",
          "tensorflow-cpu==2.19.1@3.12", "tensorflow-cpu==2.20.0@3.13", "tensorflow==2.21.0@3.13")
"""Requirement and Python version."""
_VERSIONS = "import importlib.metadata as m, sys; print(sys.version.split()[0], m.version('keras'), m.version('numpy'))"


@dataclass(frozen=True)
class Row:
    """What one version gave; `verdict` is "same", or what went wrong.

    Attributes:
        install_s, build_s: seconds that pip took, and `import tensorflow` with the build of the native libraries.
        difference: largest relative difference of a loss.
        speedup: plain over stitched milliseconds of a train step.
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


def table(rows: list[Row]) -> str:
    """Markdown."""
    names = [field.name for field in fields(Row)]
    lines = ["| " + " | ".join(name.replace("_s", ", s") for name in names) + " |", "|" + " --- |" * len(names)]
    return "\n".join([*lines, *("| " + " | ".join(_cell(getattr(row, name)) for name in names) + " |" for row in rows)])


def _cell(value: Any) -> str:
    return f"{value:.2g}" if isinstance(value, float) and value < 10 else (
        f"{value:.0f}" if isinstance(value, float) else str(value))  # fmt: skip


def measure(wanted: str, folder: Path) -> Row:
    """Installs one version into `folder` and runs the demo's script."""
    requirement, _, version = wanted.partition("@")
    row: dict[str, Any] = {"tensorflow": requirement, "python": version}
    try:
        python = _make_environment(version, folder)
        row["install_s"] = _install(python, requirement)
        row["python"], row["keras"], row["numpy"] = _run([python, "-c", _VERSIONS]).split()
        variables = {"TF_STITCH_CACHE": str(folder / "cache"), "TF_STITCH": "1", "TF_STITCH_ASYNC": "0"}
        start = time.monotonic()
        _run([python, "-c", "import tensorflow"], **variables)
        row["build_s"] = time.monotonic() - start
        results = {}
        for name, more in (("plain", {}), ("stitched", {**variables, "TF_STITCH_REPORT": str(folder)})):
            out = folder / f"{name}.json"
            _run([python, str(SCRIPT), "--steps", str(STEPS), "--out", str(out)], **more)
            results[name] = json.loads(out.read_text())
        report = folder / "report.json"
        row |= compare(results["plain"], results["stitched"],
                       json.loads(report.read_text()) if report.exists() else None)
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


def _install(python: str, requirement: str) -> float:
    """Seconds."""
    start = time.monotonic()
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, requirement])
    _run([*pip, "--editable", f"{ROOT}[demo]", requirement])
    return time.monotonic() - start


def _run(command: list[str], **variables: str) -> str:
    """Standard output of a program in an environment without this one's TF_STITCH_* variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_STITCH")}
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
    arguments = flags.parse_args()
    rows = []
    for wanted in arguments.versions:
        folder = Path(tempfile.mkdtemp(prefix="tf_stitch_version."))
        try:
            rows.append(measure(wanted, folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(table(rows[-1:]).splitlines()[-1], flush=True)
        command = " ".join(["tools/versions.sh", *([] if arguments.versions == WANTED else arguments.versions)])
        arguments.out.write_text(
            f"# Versions of TensorFlow and Python\n\n`{command}`, {dt.date.today()}, {os.cpu_count()} CPU cores: "
            f"the demo's encoder, {STEPS} steps, each\nversion in a fresh virtual environment with a cold cache. "
            f"`difference` is the largest relative one of a loss;\n`speedup` of a train step is one turn, on a machine "
            f"that may be busy.\n\n{table(rows)}\n")
    return 0 if all(row.verdict == "same" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
