"""Random graphs of the tensor IR on a GPU through CuPy, without TensorFlow: fresh random inputs, float64 references,
zones around every buffer, outputs that start as garbage. Every process compiles and runs graphs of its own."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.benchmark.machine import describe_cuda
from tools.benchmark.raw_rows import write_rows

ROOT = Path(__file__).resolve().parents[2]


def _one(number: int) -> object:
    """What becomes of a graph, in a process of the pool."""
    from tests.differential.campaign import try_graph

    return try_graph(0, number)


def run_kernel_graphs(numbers: Sequence[int], processes: int, seconds: float, out: Path | None, command: str) -> int:
    """The exit code: 1 if a graph was wrong, or was not done in time.

    Args:
        seconds: after which graphs that were not begun, or never end, are left out.
        out: where the figures are written.
    """
    from tests.differential.campaign import Outcome, summary

    begin, outcomes = time.monotonic(), list[Outcome]()
    # A forked process could not use CUDA.
    with multiprocessing.get_context("spawn").Pool(min(processes, len(numbers))) as pool:
        found = pool.imap_unordered(_one, numbers)
        for _ in numbers:
            try:
                outcomes.append(found.next(max(begin + seconds - time.monotonic(), 0.01)))
            except multiprocessing.TimeoutError:
                print(f"{len(numbers) - len(outcomes)} graphs were not done in time", file=sys.stderr)
                break
            last = outcomes[-1]
            if last.failure:
                print(f"graph {last.number}, {last.failure}: {last.message}", flush=True)
    figures = summary(outcomes)
    document = {"command": command, "what": "Random graphs, redzones around every buffer",
                "result": f"{figures['graphs']} graphs, {figures['kernels']} kernels: {figures['mismatches']} "
                          f"mismatches, {figures['redzones']} redzones touched, {figures['errors']} errors",
                "machine": describe_cuda(), "asked": len(numbers), "seconds": round(time.monotonic() - begin, 1),
                **figures}  # fmt: skip
    if out is not None:
        write_rows(out, document)
    failures = document.pop("failures")
    print(json.dumps(document, indent=1))
    return 1 if failures or len(outcomes) < len(numbers) else 0
