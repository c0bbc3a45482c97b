"""Random graphs on a GPU through CuPy, without TensorFlow: fresh random inputs, float64 references, zones around every
buffer, outputs that start as garbage. Every process compiles and runs graphs of its own.

    python tools/fuzz_gpu.py                      1,000 graphs; writes benchmarks/h200_fuzz.json
    python tools/fuzz_gpu.py --seed=7 --only=31   one of them again
    python tools/fuzz_gpu.py --dry                what would be reached; needs no GPU
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from benchmarking.machine import describe_cuda  # noqa: E402
from tests.differential.campaign import Outcome, summary, try_graph  # noqa: E402
from tests.differential.gpu_run import run_gpu  # noqa: E402


def one(arguments: tuple[int, int, bool]) -> Outcome:
    """A graph in a process of the pool."""
    seed, number, dry = arguments
    return try_graph(seed, number, None if dry else run_gpu)


def campaign(seed: int, numbers: list[int], dry: bool, processes: int, seconds: float) -> list[Outcome]:
    """What became of the graphs; after `seconds` those that were not begun, or never end, are left out."""
    stop, outcomes = time.monotonic() + seconds, list[Outcome]()
    # A forked process could not use CUDA.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        found = pool.imap_unordered(one, [(seed, number, dry) for number in numbers])
        for _ in numbers:
            try:
                outcomes.append(found.next(max(stop - time.monotonic(), 0.01)))
            except multiprocessing.TimeoutError:
                print(f"{len(numbers) - len(outcomes)} graphs were not done in time", file=sys.stderr)
                break
            last = outcomes[-1]
            if last.failure:
                print(f"graph {last.number}, {last.failure}: {last.message}", flush=True)
    return outcomes


def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--count", type=int, default=1000, help="graphs")
    flags.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"), help="of the campaign")
    flags.add_argument("--only", type=int, help="the number of one graph")
    flags.add_argument("--dry", action="store_true", help="compile to source, run nothing, write nothing")
    flags.add_argument("--processes", type=int, default=max((os.cpu_count() or 2) - 2, 1))
    flags.add_argument("--seconds", type=float, default=500, help="limit")
    flags.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "h200_fuzz.json")
    args = flags.parse_args()
    numbers = list(range(args.count)) if args.only is None else [args.only]
    begin = time.monotonic()
    outcomes = campaign(args.seed, numbers, args.dry, min(args.processes, len(numbers)), args.seconds)
    figures = summary(outcomes)
    document = {"command": "python tools/fuzz_gpu.py", "what": "Random graphs, redzones around every buffer",
                "result": f"{figures['graphs']} graphs, {figures['kernels']} kernels: {figures['mismatches']} "
                          f"mismatches, {figures['redzones']} redzones touched, {figures['errors']} errors",
                "machine": {} if args.dry else describe_cuda(), "seed": args.seed, "asked": len(numbers),
                "seconds": round(time.monotonic() - begin, 1), **figures}  # fmt: skip
    if not args.dry and args.only is None:
        args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document | {"failures": len(document["failures"])}, indent=1))
    return 1 if document["failures"] or len(outcomes) < len(numbers) else 0


if __name__ == "__main__":
    sys.exit(main())
