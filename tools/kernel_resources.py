"""What the launches of plans take of an H200, by the compiler; needs no GPU: registers, spills, shared memory. Of the
subgraphs that tf_stitch is measured by, and of the scripts and the zoo's models (small configurations), from texts that
tools/zoo_graphs.py made.

    python -m tools.kernel_resources                      all, some minutes: benchmarks/kernel_resources.md and its rows
    python -m tools.kernel_resources --programs=bert,asr --out=/tmp/some.json

Exits with 1 if a kernel spills.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.device.spec import H200
from tf_stitch.runtime.kernel_cache import KernelCache
from tools.benchmark.raw_rows import page_of, raw_rows, write_rows
from tools.cost_report.cases import program_regions, programs, subgraph_regions
from tools.cost_report.resources import Launch, collect, markdown, measured, summary

ROOT = Path(__file__).resolve().parents[1]


_PROGRAMS = flags.DEFINE_list("programs", None, "models and scripts' steps; none given: all, and the subgraphs")
_OUT = flags.DEFINE_string("out", str(raw_rows("kernel_resources")), "with a .md beside it")

def main(_: Sequence[str]) -> int:
    start = time.perf_counter()
    found: dict[Launch, str] = {}  # the first program that has it
    if _PROGRAMS.value is None:
        for _name, region in subgraph_regions(H200):
            collect("subgraphs", [region], found)
    for name in programs() if _PROGRAMS.value is None else _PROGRAMS.value:
        collect(name, program_regions(H200, name), found)
        print(f"{name}: {len(found)} launches", file=sys.stderr)
    planned = time.perf_counter()
    rows = measured(found, H200, KernelCache(load_config().cache_dir / "kernels"))
    document = {"architecture": H200.architecture, "date": time.strftime("%Y-%m-%d"),
                "seconds": {"plan": round(planned - start, 1), "build": round(time.perf_counter() - planned, 1)},
                "summary": summary(rows), "launches": rows}  # fmt: skip
    out = Path(_OUT.value)
    write_rows(out, document)
    page_of(out).write_text(markdown(document))
    print(markdown(document))
    return int(document["summary"]["all"]["spilling"] > 0)


if __name__ == "__main__":
    app.run(main)
