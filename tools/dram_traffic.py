"""DRAM traffic of every kernel of the zoo, the scripts and the measured subgraphs, by profiler counters, against the
bytes of its inputs, outputs and scratch.

    python -m tools.cost_report --target=cuda --export=DIR    anywhere: the kernels, built
    python -m tools.dram_traffic DIR                          where ncu and CuPy are: runs each once under ncu

Kernels of larger configurations come in by `zoo_graphs.py --config=medium --scopes=region --out=TEXTS` and
`cost_report.py --graphs=TEXTS`.

Writes benchmarks/h200_dram.md and its rows. Large kernels go first: what a limit of time cuts off is small.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tf_stitch.runtime.device_run import bind_alone
from tools.benchmark.machine import describe_cuda
from tools.benchmark.raw_rows import page_of, raw_rows, write_rows
from tools.cost_report.exported import ExportedKernel, load
from tools.profiling.counters import Counted, ProfilerError, profile
from tools.profiling.tables import LARGE, traffic_result, traffic_summary, traffic_table

ROOT = Path(__file__).resolve().parents[1]


BATCH = 200
"""Kernels of one run of ncu, which prints what it counted when it ends."""
SWEPT_BYTES = 1 << 29
"""Of the memory that is read between kernels, several times what any cache holds."""
SWEEP_BEHIND = "tfs_order_behind"
SWEEP = r"""
extern "C" __global__ void NAME(const float4* memory, long long count, float* never) {
  float sum = 0;
  const long long threads = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += threads)
    sum += memory[i].x;
  if (sum != 0) *never = sum;  // the memory is zero
}
"""


def main() -> int:
    args = arguments()
    kernels = sorted((k for k in load(args.folder) if k.moved >= args.least), key=lambda k: -k.moved)
    if args.launch is not None:
        launch(kernels[args.launch : args.launch + BATCH])
        return 0
    rows: list[dict[str, Any]] = []
    left_out: list[str] = []
    stop = time.monotonic() + args.seconds
    for first in range(0, len(kernels), BATCH):
        batch = kernels[first : first + BATCH]
        try:
            counted = count(args.folder, first, args.least, stop - time.monotonic())
            rows += [row(kernel, own, behind) for kernel, own, behind in match(batch, counted)]
        except ProfilerError as error:
            left_out.append(f"{len(batch)} kernels of {batch[-1].moved} to {batch[0].moved} bytes: {error}")
        summary = traffic_summary(rows)
        command = "python -m tools.dram_traffic DIR" + (f" --least={args.least}" if args.least else "")
        document = {"command": command, "machine": describe_cuda(),
                    "result": traffic_result(summary), "summary": summary, "left_out": left_out,
                    "kernels": rows}  # fmt: skip
        write_rows(args.out, document)
        page_of(args.out).write_text(traffic_table(document))
    print(json.dumps(document["summary"]), *left_out, sep="\n")
    for kernel in sorted((r for r in rows if r["expected"] >= LARGE), key=lambda r: -r["ratio"])[:20]:
        print(f"{kernel['ratio']:.2f}  {kernel['name']}")
    return 1 if left_out else 0


def count(folder: Path, first: int, least: int, limit: float) -> list[Counted]:
    """Counters of a batch, launched by this program in a process of its own."""
    if limit <= 0:
        raise ProfilerError("no time was left")
    command = [sys.executable, "-m", "tools.dram_traffic", str(folder), f"--launch={first}", f"--least={least}"]
    with tempfile.TemporaryDirectory() as log:
        return profile(command, f"^(launch_[0-9]+|{SWEEP_BEHIND})$", Path(log) / "ncu.csv", limit)


def launch(kernels: Sequence[ExportedKernel]) -> None:
    """Each kernel once over fresh memory, caches emptied before and behind it; only the second time is counted."""
    import cupy

    swept, never = cupy.zeros(SWEPT_BYTES, cupy.uint8), cupy.zeros(1, cupy.float32)
    before, behind = (cupy.RawKernel(SWEEP.replace("NAME", name), name) for name in ("tfs_order_before", SWEEP_BEHIND))
    arguments = (swept, np.int64(SWEPT_BYTES // 16), never)
    for kernel in kernels:
        call, memory = bind_alone(cupy.RawModule(path=str(kernel.binary)), kernel.kernel)
        before((1024,), (256,), arguments)
        call()
        behind((1024,), (256,), arguments)
        cupy.cuda.Device().synchronize()
        del call, memory
        cupy.get_default_memory_pool().free_all_blocks()


def match(kernels: Sequence[ExportedKernel], counted: Sequence[Counted]
          ) -> list[tuple[ExportedKernel, Counted, Counted]]:
    """Each kernel, its launch, and the sweep behind it: by their order.

    Raises:
        ProfilerError: they are not these.
    """
    expected = [name for k in kernels for name in (k.kernel.symbol, SWEEP_BEHIND)]
    if expected != [c.kernel.partition("(")[0] for c in counted]:
        raise ProfilerError(f"{len(counted)} launches were counted, of other kernels than the {len(kernels)} expected")
    return list(zip(kernels, counted[::2], counted[1::2], strict=True))


def row(kernel: ExportedKernel, own: Counted, behind: Counted) -> dict[str, Any]:
    """A kernel of the report; bytes. What others write while a cache is emptied (the profiler, some 300 KB) does not
    count: no more is left in it than was stored there."""
    later = min(behind.written, own.stored)
    ratio = (own.read + own.written + later) / kernel.moved
    return {"name": kernel.name, **kernel.labels, "expected": kernel.moved, "read": own.read, "written": own.written,
            "later": later, "ratio": round(ratio, 4)}  # fmt: skip


def arguments() -> argparse.Namespace:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("folder", type=Path, help="kernels that cost_report.py exported")
    flags.add_argument("--launch", type=int, help=argparse.SUPPRESS)  # what runs under ncu: a batch, from here on
    flags.add_argument("--least", type=int, default=0, help="leave out kernels that move fewer bytes")
    flags.add_argument("--seconds", type=float, default=300, help="limit of all together")
    flags.add_argument("--out", type=Path, default=raw_rows("h200_dram"))
    return flags.parse_args()


if __name__ == "__main__":
    sys.exit(main())
