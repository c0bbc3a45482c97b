"""AStitch's ablation (section 6.2, Table 4) on the subgraphs of benchmarking.subgraphs: launches, bytes and times as
parts of the method are switched on (TF_STITCH_REUSE). Writes benchmarks/ablation.md and raw/ablation.json.gz.

    python -m tools.ablation            on a GPU, through CuPy
    python -m tools.ablation --counts   launches and bytes alone; needs no GPU
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from tf_stitch.kernel_ir.cost import buffer_bytes
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.schedule.reuse import Reuse
from tools.benchmark.raw_rows import page_of, raw_rows, write_rows
from tools.benchmark.subgraphs import IRREGULAR, SUBGRAPHS, Subgraph
from tools.h200_subgraphs import TOLERANCE, build, free_memory, time_stitch

ROOT = Path(__file__).resolve().parents[1]



def row(subgraph: Subgraph, cache: KernelCache, counts: bool) -> dict[str, Any]:
    """Launches, megabytes and, unless only counts are asked for, microseconds by step."""
    found: dict[str, Any] = {"name": subgraph.name}
    for reuse in Reuse:
        region, _ = build(subgraph, cache, reuse)
        found[reuse.value] = {"launches": len(region.executable.steps),
                              "megabytes": sum(buffer_bytes(k.program) for k in region.kernels) / 1e6}  # fmt: skip
        if not counts:
            timed = time_stitch(subgraph, cache, 0, reuse)
            free_memory()
            found[reuse.value] |= {"us": timed["stitch_us"], "right": timed["max_error"] <= TOLERANCE}
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown, times with their geometric mean."""
    steps = [reuse.value for reuse in Reuse]
    measures = [m for m in ("launches", "megabytes", "us") if m in rows[0][steps[0]]]
    heads = [f"{step}: {measure}" for measure in measures for step in steps]
    lines = ["# What each step of reuse saves", "",
             "Made by `python -m tools.ablation`, for an H200; the steps are those of tf_stitch/schedule/reuse.py.", "",
             f"| subgraph | {' | '.join(heads)} |", "| --- " * (len(heads) + 1) + "|"]  # fmt: skip
    lines += [f"| {r['name']} | " + " | ".join(f"{r[s][m]:.0f}" for m in measures for s in steps) + " |" for r in rows]
    means = [math.exp(sum(math.log(r[s][m]) for r in rows) / len(rows)) for m in measures for s in steps]
    lines.append("| geometric mean | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--counts", action="store_true", help="launches and bytes alone")
    flags.add_argument("--only", default="", help="subgraphs whose name has this")
    flags.add_argument("--cache", type=Path, default=Path("~/.cache/tf_stitch/h200_subgraphs"), help="built kernels")
    flags.add_argument("--out", type=Path, default=raw_rows("ablation"))
    args = flags.parse_args()
    cache, rows = KernelCache(args.cache), list[dict[str, Any]]()
    for subgraph in (s for s in (*SUBGRAPHS, *IRREGULAR) if args.only in s.name):
        rows.append(row(subgraph, cache, args.counts))
        write_rows(args.out, rows)  # a machine that is taken away leaves what it measured
        page_of(args.out).write_text(table(rows))
    print(table(rows))
    return 0 if all(r[s.value].get("right", True) for r in rows for s in Reuse) else 1


if __name__ == "__main__":
    sys.exit(main())
