"""Faults during a first step with a cold cache: the step has to come to its end with plain TensorFlow's result, or with
an error of TensorFlow's, and the process after it has to find a cache that is whole.

    python -m tools.faults                        everything; writes benchmarks/raw/faults.json.gz and faults.md
    python -m tools.faults --only=kill            these alone, beside what the files have of others
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tools.benchmark.raw_rows import page_of, raw_rows, read_rows, write_rows
from tools.faults.faults import (
    MEMORY_GROUPS,
    Fault,
    few_processes,
    jumping_clock,
    little_memory,
    little_memory_for_all,
    no_temporary_folder,
    nothing,
    read_only,
    read_only_home,
    remove_groups,
    small_disk,
)
from tools.faults.trial import Ended, damaged, run, say

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


ABOUT = ("trials", "command", "seed", "seconds", "failures")
FINE = ("right", "TensorFlow's error", "killed")
IN_A_GROUP = (16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256)
MEGABYTES = (0, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096)
PROCESSES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


class Campaign:
    """Runs trials; each process is forked from this one, which has imported TensorFlow and has run nothing.

    Attributes:
        rows: by fault: what became of its trials.
        failures: what should not have happened.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._random = folder, random.Random(seed)
        self.rows: dict[str, dict[str, Any]] = {}
        self.failures: list[str] = []
        self.expected = json.loads(run(nothing, None).message)

    def plain(self, faults: dict[str, Fault]) -> dict[str, Ended]:
        """The same faults without tf_stitch. To be called before it is enabled."""
        return {name: run(fault, self.expected) for name, fault in faults.items()}

    def cold(self) -> None:
        """Empties the cache, but for the native libraries."""
        for path in self._folder.iterdir():
            if path.is_dir() and path.name != "native":
                shutil.rmtree(path)
                path.mkdir(mode=0o700)

    def kills(self, times: int) -> None:
        """Kills the first step at random points; the next process is right, and its cache whole."""
        self.cold()
        whole = run(nothing, self.expected).seconds
        left: Counter[str] = Counter()
        for i in range(times):
            self.cold()
            after = self._random.uniform(0, 1.1 * whole)
            killed = run(nothing, self.expected, kill_after=after)
            left["finished before" if killed.how == "right" else killed.how] += 1
            left["files half written"] += len(list(self._folder.rglob(".tmp_*")))
            bad = damaged(self._folder)
            after_it = run(nothing, self.expected)
            found = {**(after_it.counts or {})}
            if killed.how not in FINE or after_it.how != "right" or bad or found.get("corrupt") or \
                    damaged(self._folder):
                self.failures.append(f"killed after {after:.3f} s: {killed}, then {after_it}; damaged: {bad}")
            left["then right"] += after_it.how == "right"
            left["then found kernels"] += found.get("hits", 0) > 0
            if i % 20 == 19:
                say(f"{i + 1} kills: {dict(left)}")
        self.rows["kill -9 at a random point"] = {"trials": times, **left}

    def each(self, what: str, faults: dict[str, Fault], plain: dict[str, Ended] | None = None) -> None:
        """Each fault with a cold cache, and a process without it afterwards."""
        became: Counter[str] = Counter()
        for name, fault in faults.items():
            self.cold()
            ended = run(fault, self.expected)
            without = plain[name].how if plain else "right"
            if ended.how in FINE:
                became[ended.how] += 1
            elif without not in FINE:
                became["fails in plain TensorFlow, too"] += 1
            else:
                became[ended.how] += 1
                self.failures.append(f"{what}, {name}: {ended}; plain TensorFlow: {without}")
            bad = damaged(self._folder)
            after = run(nothing, self.expected)
            if after.how != "right" or bad or (after.counts or {}).get("corrupt"):
                self.failures.append(f"after {what}, {name}: {after}; damaged: {bad}")
            became["then right"] += after.how == "right"
        say(f"{what}: {dict(became)}")
        self.rows[what] = {"trials": len(faults), **became}

    def clock(self) -> None:
        """A clock that jumps, with a cold and with a warm cache."""
        self.each("clock jumps, cold cache", {"jumps": partial(jumping_clock, self._folder)})
        warm = run(partial(jumping_clock, self._folder), self.expected)
        self.rows["clock jumps, warm cache"] = {"trials": 1, warm.how: 1}
        if warm.how != "right" or not warm.counts or warm.counts["misses"] or warm.counts["corrupt"]:
            self.failures.append(f"clock jumps, warm cache: {warm}")


def limits() -> Iterator[tuple[str, dict[str, Fault]]]:
    """Faults under which plain TensorFlow may fail, too."""
    yield "RLIMIT_AS", {f"{m} MB more": little_memory(m << 20) for m in MEGABYTES}
    if MEMORY_GROUPS.exists():
        yield "memory of a control group", {f"{m} MB": little_memory_for_all(m << 20) for m in IN_A_GROUP}
    yield "RLIMIT_NPROC", {f"{n} threads": few_processes(n) for n in PROCESSES}


def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--kills", type=int, default=200)
    flags.add_argument("--pages", type=int, default=32, help="sizes of disks that get full, from 1 page of 4 KiB")
    flags.add_argument("--only", choices=("kill", "disk", "limits", "folders", "clock"))
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "tf_stitch_faults", help="is deleted")
    flags.add_argument("--out", type=Path, default=raw_rows("faults"))
    args = flags.parse_args()
    from tf_stitch.config import load_config
    from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library

    begin = time.monotonic()
    native = [build_library(library, load_config().cache_dir) for library in (GRAPH_HOOK, STITCH_OP)]
    shutil.rmtree(args.folder, ignore_errors=True)
    shutil.copytree(native[0].parent, args.folder / "native")
    campaign = Campaign(args.folder, args.seed)
    wanted: Callable[[str], bool] = lambda name: args.only in (None, name)  # noqa: E731
    plain = {what: campaign.plain(faults) for what, faults in limits()} if wanted("limits") else {}
    os.environ |= {"TF_STITCH": "1", "TF_STITCH_ASYNC": "0", "TF_STITCH_CACHE": str(args.folder)}
    import tf_stitch.plugin.autoload  # noqa: F401  (TensorFlow is imported: it begins now)

    if wanted("kill"):
        campaign.kills(args.kills)
    if wanted("disk"):
        for what, folder in (("the cache's disk gets full", args.folder), ("/tmp gets full", Path("/tmp"))):
            campaign.each(what, {f"{n} pages": small_disk(folder, n) for n in range(1, args.pages + 1)})
    if wanted("folders"):
        campaign.each("read-only cache folder", {"read-only": read_only(args.folder)})
        campaign.each("read-only home without a cache folder", {"home": read_only_home(args.folder)})
        campaign.each("no /tmp", {"no /tmp": no_temporary_folder})
    if wanted("clock"):
        campaign.clock()
    for what, results in plain.items():
        campaign.each(what, dict(limits())[what], results)
    made = {"command": "python -m tools.faults" + (f" --only={args.only}" if args.only else ""), "seed": args.seed,
            "seconds": round(time.monotonic() - begin), "failures": campaign.failures}
    before = read_rows(args.out) if args.only and args.out.exists() else {}
    document = before | {what: row | made for what, row in campaign.rows.items()}
    shutil.rmtree(args.folder)
    remove_groups()
    write_rows(args.out, document)
    page_of(args.out).write_text(table(document))
    print(table(document))
    return 1 if campaign.failures else 0


def table(document: dict[str, Any]) -> str:
    """The campaign as a page."""
    lines = ["# Faults during a first step", "", "What became of the step, and of the process after it, which has the "
             "cache that the first one left.", "", "| fault | trials | what became of them | failures | made by |",
             "| --- | --- | --- | --- | --- |"]
    for what, row in document.items():
        became = ", ".join(f"{count} {how}" for how, count in row.items() if how not in ABOUT and count)
        lines.append(f"| {what} | {row['trials']} | {became} | {len(row['failures'])} | `{row['command']}` |")
    failures = [failure for row in document.values() for failure in row["failures"]]
    return "\n".join([*lines, "", *(f"- {failure}" for failure in failures)]).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
