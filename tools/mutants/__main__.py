"""Breaks each mechanism once, in a copy of the tree, and sees whether a test fails.

    python -m tools.mutants                       # all; a result that is there is kept
    python -m tools.mutants --only='*barrier*'    # by name or file
    python -m tools.mutants --survivors           # once more, those that no test saw

--results is written after each mutant, and a table beside it: both are committed. A result stands for its edit and its
tests by name; when tests were weakened, delete the file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from queue import SimpleQueue

from tools.benchmark.raw_rows import raw_rows
from tools.mutants import (
    attentions,
    convolutions,
    devices,
    emission,
    foreign,
    graphs,
    kernels,
    matmuls,
    measuring,
    memory,
    running,
    serving,
    sizes,
    surroundings,
    thread_ranges,
    values,
)
from tools.mutants.found import Found
from tools.mutants.mutant import Mutant
from tools.mutants.trial import Tree, Verdict

ROOT = Path(__file__).resolve().parents[2]
MUTANTS: tuple[Mutant, ...] = (*values.MUTANTS, *emission.MUTANTS, *attentions.MUTANTS, *convolutions.MUTANTS,
                                *matmuls.MUTANTS, *kernels.MUTANTS, *thread_ranges.MUTANTS, *running.MUTANTS,
                                *graphs.MUTANTS, *sizes.MUTANTS, *surroundings.MUTANTS, *foreign.MUTANTS,
                                *serving.MUTANTS, *memory.MUTANTS, *measuring.MUTANTS, *devices.MUTANTS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="glob of names or files")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=900, help="seconds of a mutant")
    parser.add_argument("--results", type=Path, default=raw_rows("mutants"))
    parser.add_argument("--survivors", action="store_true", help="try those again that survived")
    args = parser.parse_args()
    found = Found.read(args.results)
    chosen = [m for m in MUTANTS if fnmatch(m.name, args.only) or fnmatch(m.file, args.only)]
    open_ = [m for m in chosen if m.key not in found.of or (args.survivors and not found.of[m.key]["killed_by"])]
    for mutant, verdict in trials(open_, args.jobs, args.limit):
        found.add(mutant, verdict)
        found.write(args.results, MUTANTS)
        print(f"{verdict.seconds:6.1f} s  {said(verdict)}  {mutant.name} ({mutant.file})", flush=True)
    found.write(args.results, MUTANTS)
    tried = [m for m in chosen if m.key in found.of]
    survivors = [m.name for m in tried if not found.of[m.key]["killed_by"]]
    print(f"{len(tried)} mutants, {len(survivors)} survived")
    for name in survivors:
        print(f"  SURVIVED: {name}")
    return bool(survivors)


def trials(mutants: Sequence[Mutant], jobs: int, limit: float) -> Iterator[tuple[Mutant, Verdict]]:
    """Each with its verdict as they come, so many at a time, each in a tree of its own."""
    with ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for _ in range(jobs):
            trees.put(stack.enter_context(Tree(ROOT)))

        def attempt(mutant: Mutant) -> tuple[Mutant, Verdict]:
            tree = trees.get()
            try:
                return mutant, tree.checked(tree.try_mutant(mutant, limit), limit)
            finally:
                trees.put(tree)

        for done in as_completed([pool.submit(attempt, mutant) for mutant in mutants]):
            yield done.result()


def said(verdict: Verdict) -> str:
    if verdict.error:
        return f"TESTS DID NOT RUN: {verdict.error}"
    return f"killed by {verdict.killed_by}" if verdict.killed_by else "SURVIVED"


if __name__ == "__main__":
    sys.exit(main())
