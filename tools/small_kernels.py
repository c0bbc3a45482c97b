"""Times small kernels (buffers of less than 1 MiB) of the zoo, the scripts and the measured subgraphs as nodes of CUDA
graphs, against an empty kernel and the time that their bytes take.

    python -m tools.cost_report --target=cuda --export=DIR    anywhere: the kernels, built
    python -m tools.small_kernels DIR                         where a GPU and CuPy are

Writes benchmarks/h200_small_kernels.md and raw/h200_small_kernels.json.gz.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tf_stitch.runtime.device_run import bind_alone
from tools.benchmark.graph_nodes import node_us
from tools.benchmark.machine import describe_cuda
from tools.benchmark.raw_rows import page_of, raw_rows, write_rows
from tools.cost_report.exported import load
from tools.h200_subgraphs import copy_gbps
from tools.profiling.tables import LARGE, small_result, small_summary, small_table

ROOT = Path(__file__).resolve().parents[1]



def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("folder", type=Path, help="kernels that cost_report.py exported")
    flags.add_argument("--out", type=Path, default=raw_rows("h200_small_kernels"))
    args = flags.parse_args()
    import cupy

    empty = cupy.RawKernel('extern "C" __global__ void tfs_empty() {}', "tfs_empty")
    empty_us = node_us(lambda: empty((1,), (32,), ()))
    gbps = copy_gbps()
    rows = []
    for kernel in (k for k in load(args.folder) if k.kernel.nbytes < LARGE):
        call, memory = bind_alone(cupy.RawModule(path=str(kernel.binary)), kernel.kernel)
        rows.append(row(kernel.name, {**kernel.labels, "cooperative": kernel.kernel.cooperative}, node_us(call),
                        empty_us + kernel.moved / gbps / 1e3))  # fmt: skip
        del call, memory
    summary = small_summary(rows, empty_us)
    document = {"command": "python -m tools.small_kernels DIR", "machine": describe_cuda() | {"copy_gbps": round(gbps)},
                "result": small_result(summary), "summary": summary, "kernels": rows}  # fmt: skip
    write_rows(args.out, document)
    page_of(args.out).write_text(small_table(document))
    print(json.dumps(document["summary"]))
    for kernel in sorted(rows, key=lambda r: -r["excess_us"])[:20]:
        print(f"{kernel['excess_us']:.2f}  {kernel['name']}")
    return 0


def row(name: str, labels: dict[str, Any], us: float, floor_us: float) -> dict[str, Any]:
    """A kernel of the report."""
    return {"name": name, **labels, "us": round(us, 3), "floor_us": round(floor_us, 3),
            "excess_us": round(us - floor_us, 3)}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
