"""Results of `python -m tools.benchmark --models`, as the tables look them up."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.benchmark.raw_rows import read_rows, stem

Row = dict[str, Any]
KERNELS = ("memory", "library")
"""Classes that are kernels; copies are counted apart, as in the papers."""


CPU_KERNELS = ("Kernels on a CPU: TensorFlow's ops and XLA's thunks, without ops of less than 8,000 cycles, which "
               "TensorFlow's profiler leaves out; a region counts as the kernels that tf_stitch's report names.")


class NotMeasured(Exception):
    """A figure that cannot be had; the message says why."""


@dataclass(frozen=True)
class Results:
    """A results file.

    Attributes:
        name: its stem: cpu_models.
    """

    name: str
    rows: Sequence[Row]

    @property
    def label(self) -> str:
        """Where it was measured."""
        machine = self.rows[0]["machine"]
        return str(machine.get("gpu", f"CPU, {machine['cores']} cores"))

    @property
    def is_gpu(self) -> bool:
        return "gpu" in self.rows[0]["machine"]

    def row(self, model: str, mode: str | None = None, dtype: str = "float32") -> Row:
        """The model's row; without a mode, that of the first one.

        Raises:
            NotMeasured: it is not there.
        """
        for row in self.rows:
            if row["model"] == model and mode in (None, row["mode"]) and row["dtype"] == dtype:
                return row
        raise NotMeasured(f"no row {' '.join(filter(None, [model, mode, dtype]))} in {self.name}.json")


def load(path: Path) -> Results:
    return Results(stem(path), read_rows(path))


def field(row: Row, name: str, backend: str) -> Any:
    """row["BACKEND_name"].

    Raises:
        NotMeasured: the backend has none; with the reason that the row gives.
    """
    key = f"{backend}_{name}"
    if key in row:
        return row[key]
    reason = (row["failures"] | row["left_out"]).get(backend)
    what = f"{row['model']} {row['mode']} {row['dtype']} with {backend}"
    if reason:
        raise NotMeasured(f"{what}: {_last_line(reason)}")
    if backend not in row["backends"]:
        raise NotMeasured(f"{row['model']} {row['mode']} {row['dtype']} was not run with {backend}")
    raise NotMeasured(f"{what}: measured before {name} was kept")


def _last_line(reason: str) -> str:
    line = (reason.strip().splitlines() or ["it died"])[-1].strip()
    return re.sub(r"__inference_\w+|\[[^]]*\]|\s*\{\{.*", "", line)[:200]  # without names of functions and nodes


def speedup(row: Row, over: str, of: str = "stitch") -> float:
    """Time of one backend over that of another."""
    return float(field(row, "us", over) / field(row, "us", of))


def count(row: Row, backend: str, *classes: str) -> float:
    """Events of these classes in a step."""
    found = field(row, "kernels_by_class", backend)
    return float(sum(found[c] for c in classes))


def time_us(row: Row, backend: str, *classes: str) -> float:
    """Microseconds of these classes in a step."""
    found = field(row, "class_us", backend)
    return float(sum(found[c] for c in classes))


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    if not logs:
        raise NotMeasured("no row has both")
    return math.exp(sum(logs) / len(logs))
