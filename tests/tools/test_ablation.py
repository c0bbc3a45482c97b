"""The ablation's rows: made without a GPU but for times."""

from __future__ import annotations

from pathlib import Path

from tf_stitch.runtime.kernel_cache import KernelCache
from tools import ablation
from tools.benchmark.subgraphs import SUBGRAPHS


def test_counts_fall_from_step_to_step(tmp_path: Path) -> None:
    subgraph = next(s for s in SUBGRAPHS if s.name.startswith("cross-entropy")).resized(64, 1000)
    row = ablation.row(subgraph, KernelCache(tmp_path), counts=True)
    launches, megabytes = ([row[step][m] for step in ("mapping", "hierarchy", "merged")]
                           for m in ("launches", "megabytes"))  # fmt: skip
    assert launches == sorted(launches, reverse=True)
    assert launches[0] > launches[-1]
    assert megabytes[0] > megabytes[1] > megabytes[2]
    text = ablation.table([row])
    assert f"| {row['name']} | " + " | ".join(map(str, launches)) in text
    assert " us" not in text.splitlines()[4]
