"""Tunes the templates of the subgraphs of benchmarking.subgraphs on a GPU, through CuPy: the rules' template against
the fastest of those tried, for each kernel alone and for the subgraph. Writes benchmarks/templates.md and its rows.

    python -m tools.tune --jobs=16          on a GPU; kernels are built by that many processes first
    python -m tools.tune --build_only       builds what would be timed; needs no GPU

Outputs by the tuned kernels are checked against float64 maths. What was found also goes to CACHE/templates.json, from
which a run that was cut off goes on.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from tf_stitch.compiler.program_times import ProgramTimer, timed_kernels
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.compiler.template_kernels import possible_kernels
from tf_stitch.compiler.template_tuner import batches, rule_kernels, tune, worth_trying
from tf_stitch.device.spec import H200
from tf_stitch.errors import BuildError
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tools.benchmark.raw_rows import page_of, raw_rows, write_rows
from tools.benchmark.subgraphs import IRREGULAR, SUBGRAPHS, Subgraph
from tools.h200_subgraphs import TOLERANCE, build, copy_gbps, describe_machine, free_memory, time_stitch

ROOT = Path(__file__).resolve().parents[1]


ROUNDS = 3
"""Times that a subgraph is timed with both templates, in turns."""
LARGEST = 1 << 36
"""Bytes that the buffers of a timed kernel may take."""

Row = dict[str, Any]


def kernels_of(subgraph: Subgraph, cache: KernelCache) -> dict[str, LoweredKernel]:
    """The subgraph's kernels by the rules."""
    return rule_kernels(build(subgraph, cache)[0].kernels, H200, True)


def prepare(subgraph: Subgraph, folder: Path, most: int) -> tuple[str, int]:
    """Builds all that tuning the subgraph will time; how many kernels."""
    cache, count = KernelCache(folder), 0
    for default in kernels_of(subgraph, cache).values():
        for batch in batches(worth_trying(list(possible_kernels(default, H200, True)), H200, most)):
            source, kernels = timed_kernels([kernel.program for kernel in batch], H200)
            build_cuda(source, H200.architecture, cache)
            count += len(kernels)
    return subgraph.name, count


def tuned_row(subgraph: Subgraph, cache: KernelCache, tuned: TunedTemplates, most: int) -> Row:
    """Tunes what is not known yet, and times the subgraph without and with what was found."""
    found: list[Row] = []
    for key, default in kernels_of(subgraph, cache).items():
        if tuned.get(key) is None:
            start = time.perf_counter()
            tuning = tune(default, H200, True, ProgramTimer(H200, 0, cache, LARGEST), most)
            assert tuning is not None  # time does not run out here
            tuned.add({key: tuning.record()})
            fastest = sorted(tuning.times.items(), key=lambda item: item[1])[:5]
            found.append({"fastest": fastest, "failed": tuning.failed, "seconds": time.perf_counter() - start})
        else:
            found.append({})
        found[-1] |= tuned.encode(tuned.get(key))
    choice = TemplateChoice(H200, True, tuned=tuned)
    pairs = []
    for seed in range(ROUNDS):
        pairs.append([time_stitch(subgraph, cache, seed, templates=templates) for templates in (None, choice)])
        free_memory()
    worst = max(pair[1]["max_error"] for pair in pairs)
    return {"name": subgraph.name, "default_us": median(pair[0]["stitch_us"] for pair in pairs),
            "best_us": median(pair[1]["stitch_us"] for pair in pairs), "max_error": worst,
            "right": worst <= TOLERANCE, "kernels": found}  # fmt: skip


def table(rows: list[Row], machine: str) -> str:
    """The rows as Markdown: a subgraph's times, and below it its kernels'."""
    lines = ["# Templates", "", machine, "",
             "The rules' template and the fastest of those tried; microseconds. Made by `python -m tools.tune`.", "",
             "| subgraph, kernel's best template | default | tuned | tuned / default | tried | of |",
             "| --- " * 6 + "|"]  # fmt: skip
    for row in rows:
        wrong = "" if row["right"] else f" WRONG ({row['max_error']:.0e})"
        lines.append(f"| **{row['name']}**{wrong} | {_times(row)} | | |")
        for kernel in row["kernels"]:
            same = " (the default)" if kernel["best"] == kernel["default"] else ""
            lines.append(f"| `{kernel['best']}`{same} | {_times(kernel)} | {kernel['tried']} | {kernel['possible']} |")
    ratio = math.exp(sum(math.log(row["best_us"] / row["default_us"]) for row in rows) / len(rows))
    lines.append(f"| geometric mean | | | {ratio:.3f} | | |")
    return "\n".join(lines) + "\n"


def _times(row: Row) -> str:
    return f"{row['default_us']:.1f} | {row['best_us']:.1f} | {row['best_us'] / row['default_us']:.3f}"


def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--build_only", action="store_true", help="build all kernels and stop")
    flags.add_argument("--jobs", type=int, default=4, help="processes that build")
    flags.add_argument("--most", type=int, default=32, help="templates tried for a kernel")
    flags.add_argument("--only", default="", help="subgraphs whose name has this")
    flags.add_argument("--cache", type=Path, default=Path("~/.cache/tf_stitch/h200_subgraphs").expanduser())
    flags.add_argument("--out", type=Path, default=raw_rows("templates"))
    args = flags.parse_args()
    subgraphs = [s for s in (*SUBGRAPHS, *IRREGULAR) if args.only in s.name]
    start = time.perf_counter()
    with ProcessPoolExecutor(args.jobs) as pool:
        futures = [pool.submit(prepare, subgraph, args.cache, args.most) for subgraph in subgraphs]
        for future in futures:
            name, count = future.result()
            print(f"{name}: {count} kernels built, {time.perf_counter() - start:.0f} s", flush=True)
    if args.build_only:
        return 0
    machine = describe_machine(copy_gbps())
    cache, tuned, rows = KernelCache(args.cache), TunedTemplates(args.cache / "templates.json"), list[Row]()
    for subgraph in subgraphs:
        try:
            rows.append(tuned_row(subgraph, cache, tuned, args.most))
        except BuildError as error:  # one failure must not cost the other measurements of a lent machine
            print(f"{subgraph.name}: {error}", file=sys.stderr, flush=True)
            continue
        finally:
            free_memory()
        print(f"{subgraph.name}: {_times(rows[-1])}, {time.perf_counter() - start:.0f} s", flush=True)
        write_rows(args.out, rows)
        page_of(args.out).write_text(table(rows, machine))
    print(args.out.with_suffix(".md").read_text())
    return 0 if all(row["right"] for row in rows) and len(rows) == len(subgraphs) else 1


if __name__ == "__main__":
    sys.exit(main())
