"""Built kernels in a folder, for a machine that has a GPU but no TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_stitch.runtime.timed_kernel import TimedKernel

if TYPE_CHECKING:  # it needs what a machine that measures may lack
    from tools.cost_report.cases import Case

INDEX = "kernels.json"
LABELS = ("group", "subgraph", "rule", "domain", "ops", "key", "moved")
"""What a Case says of its kernel."""


@dataclass(frozen=True)
class ExportedKernel:
    """A kernel and the file that holds it.

    Attributes:
        labels: of its Case, by the names of LABELS.
    """

    labels: dict[str, Any]
    binary: Path
    kernel: TimedKernel

    @property
    def key(self) -> str:
        return str(self.labels["key"])

    @property
    def moved(self) -> int:
        return int(self.labels["moved"])

    @property
    def name(self) -> str:
        """For people."""
        rows, columns = self.labels["domain"]
        return f"{self.labels['group']}: {self.labels['subgraph']}, {self.labels['rule']} {rows}x{columns}"


def export(cases: Sequence[Case], binaries: Sequence[Path], target: str, folder: Path) -> None:
    """Writes the binaries, and what is in them."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, binary in enumerate(binaries):
        (folder / f"{i}.bin").write_bytes(binary.read_bytes())
    kernels = [{**{name: getattr(c, name) for name in LABELS}, "binary": c.source, "kernel": vars(c.kernel)}
               for c in cases]  # fmt: skip
    (folder / INDEX).write_text(json.dumps({"target": target, "kernels": kernels}))


def target_of(folder: Path) -> str:
    """"cpu" or "cuda"."""
    return str(json.loads((folder / INDEX).read_text())["target"])


def load(folder: Path) -> list[ExportedKernel]:
    """What `export` wrote."""
    entries = json.loads((folder / INDEX).read_text())["kernels"]
    return [ExportedKernel({name: e[name] for name in LABELS}, folder / f"{e['binary']}.bin", _kernel(e["kernel"]))
            for e in entries]  # fmt: skip


def _kernel(fields: dict[str, Any]) -> TimedKernel:
    return TimedKernel(**{**fields, "buffers": tuple(map(tuple, fields["buffers"]))})
