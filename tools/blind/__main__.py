"""Draws networks that nobody has chosen, measures each once on every backend, and keeps its first figures for good.

    python -m tools.blind --show=17             # the network of seed 17: a plain Keras 3 file
    python -m tools.blind --seeds=1-12          # measures those that are not on record, appends rows, writes the page
    python -m tools.blind --take=FILE           # rows that were measured elsewhere
    python -m tools.blind --page                # only writes the page

A seed on record is never run again; one for which no backend was ready is not on record. What turns out slower than
on another backend becomes a case of models/, whose later figures stand in another file. First calls run side by side,
--together networks at a time; what is not ready in --ready seconds has no time. Losses of the first 20 steps, or what
the first call infers, are held against TensorFlow's, from the same weights; those of steps that draw random numbers
(dropout) are told but not judged. Some seeds need the package keras_hub.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from absl import app, flags

from tools.benchmark.machine import commit, describe_gpu
from tools.benchmark.network_turns import NetworkCase, Turns, measure
from tools.benchmark.networks import DRAWN
from tools.blind import agreement, page
from tools.blind.drawn import Drawn, drawn
from tools.blind.record import Row, append, rows_of, seeds_of

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PACKAGES = ("tensorflow", "keras", "keras-hub", "jax")

_SHOW = flags.DEFINE_integer("show", None, "a seed whose file is printed")
_SEEDS = flags.DEFINE_string("seeds", None, "first and last seed: 1-12")
_TAKE = flags.DEFINE_string("take", None, "a file of rows from another machine")
_PAGE = flags.DEFINE_bool("page", False, "write the page alone")
_TINY = flags.DEFINE_bool("tiny", False, "networks as small as they get, for a test")
_BACKENDS = flags.DEFINE_list("backends", ["tf", "xla", "stitch", "jax"], "of tools.network_benchmark")
_READY = flags.DEFINE_float("ready", 150, "seconds for the first calls of a group")
_TOGETHER = flags.DEFINE_integer("together", 6, "networks whose first calls run side by side")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "turns of each backend")
_CALLS = flags.DEFINE_integer("calls", 10, "calls of a turn")
_WARM_UP = flags.DEFINE_integer("warm_up", 60, "calls before the first turn")
_KERNELS = flags.DEFINE_string("kernels", None, "JSON file for what the device did in a call of each")
_CSV = flags.DEFINE_string("csv", str(BENCHMARKS / "blind.csv"), "the record; its page is beside it")
_COMMIT = flags.DEFINE_string("commit", None, "what is measured; else this tree's")


def main(_: Sequence[str]) -> None:
    file = Path(_CSV.value)
    if _SHOW.value is not None:
        print(drawn(_SHOW.value, _TINY.value).source, end="")
        return
    if _TAKE.value:
        known = seeds_of(file)
        append(file, [row for row in rows_of(Path(_TAKE.value)) if int(row["seed"]) not in known])
    elif _SEEDS.value:
        _measure(file)
    elif not _PAGE.value:
        raise app.UsageError("one of --show, --seeds, --take, --page")
    file.with_suffix(".md").write_text("\n".join(page.lines(rows_of(file))) + "\n")


def _measure(file: Path) -> None:
    first, _, last = _SEEDS.value.partition("-")
    known = seeds_of(file)
    seeds = [seed for seed in range(int(first), int(last or first) + 1) if seed not in known]
    turns = Turns(_BACKENDS.value, _ROUNDS.value, _CALLS.value, _WARM_UP.value, _READY.value,
                  losses=agreement.STEPS, kernels=Path(_KERNELS.value) if _KERNELS.value else None)  # fmt: skip
    prefix = f"{DRAWN}tiny:" if _TINY.value else DRAWN
    for begin in range(0, len(seeds), _TOGETHER.value):
        group = seeds[begin:begin + _TOGETHER.value]
        for seed, cases in zip(group, measure([f"{prefix}{seed}" for seed in group], turns), strict=True):
            rows = _rows(seed, cases)
            if any("least_ms" in row for row in rows):
                append(file, rows)  # else it can be measured again: no backend was ready
            print(*(" ".join(f"{row.get(key, '')}" for key in ("seed", "network", "backend", "median_ms", "device_ms",
                                                             "first_call_s", "losses")) for row in rows),
                  sep="\n", flush=True)  # fmt: skip


def _rows(seed: int, cases: Sequence[NetworkCase]) -> list[Row]:
    network = drawn(seed, _TINY.value)
    about = {"seed": seed, "network": str(network), "commit": _COMMIT.value or commit(),
             "date": dt.date.today().isoformat(), "versions": versions(), **describe_gpu()}  # fmt: skip
    wanted = next((case.losses for case in cases if case.backend == "tensorflow"), [])
    return [about | _figures(case) | {"losses": _agreement(case, wanted, network)} for case in cases]


def _figures(case: NetworkCase) -> Row:
    return {key: _short(case.row[key]) for key in ("backend", "median_ms", "least_ms", "most_ms", "device_ms", "busy",
                                           "first_call_s", "peak_mib") if key in case.row}  # fmt: skip


def _short(value: object) -> object:
    return " ".join(value.split())[:160] if isinstance(value, str) else value


def _agreement(case: NetworkCase, wanted: Sequence[object], network: Drawn) -> str:
    if case.backend == "tensorflow":
        return ""
    count = min(len(case.losses), len(wanted))  # those that came in time
    return agreement.said(case.losses[:count], wanted[:count], network.policy, network.random_steps)


def versions() -> str:
    """Of the packages that are there."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join([*found, f"Python {sys.version_info.major}.{sys.version_info.minor}"])


if __name__ == "__main__":
    app.run(main)
