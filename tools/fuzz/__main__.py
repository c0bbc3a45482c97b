"""Random TensorFlow programs, plain and stitched: do they give the same?

    python -m tools.fuzz --seeds=0:100                            our own generator, every mode
    python -m tools.fuzz --seeds=0:10000 --state=/tmp/fuzz.jsonl  goes on where it was stopped
    python -m tools.fuzz --generator=nnsmith --seeds=0:100        models of NNSmith (pip install 'tf_stitch[fuzz]')
    python -m tools.fuzz --device=gpu --seeds=0:2000 --seconds=500 --jobs=12 --modes_each=1 --state=fuzz.jsonl \
        --out=benchmarks/fuzz.json                                one mode a program, in turn; goes into a table
    python -m tools.fuzz --generator=shapes --seeds=0:100         ops that change shapes, of which no size is known
    python -m tools.fuzz --generator=training --seeds=0:100       training steps, while their kernels are built
    python -m tools.fuzz --generator=kernels --device=gpu --jobs=14 --seeds=0:1000 --out=h200_fuzz.json
    python -m tools.fuzz --seeds=17 --modes=default --show        the program of one seed

A program whose results differ by more than rounding explains is cut down, and written to --failures as a script that
runs by itself. The exit code is 1 if there was one.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tools.benchmark.raw_rows import command_line
from tools.fuzz.campaign import Options, done_before, run_campaign, table
from tools.fuzz.kernel_graphs import run_kernel_graphs
from tools.fuzz.programs import decode
from tools.fuzz.summary import write_summary
from tools.fuzz.workers import FIRST_CALLS, MODES, PLAIN, Worker

_STITCHED = [mode for mode in MODES if mode != PLAIN]
_SEEDS = flags.DEFINE_string("seeds", "0:100", "one seed, or FIRST:END")
_GENERATOR = flags.DEFINE_enum("generator", "ops", ["ops", "shapes", "training", "nnsmith", "kernels"],
                               "what draws programs; shapes: no size is known, and results are shapes; "
                               "training: steps that write variables, called in many ways while "
                               "kernels are built; kernels: graphs of the tensor IR, on a GPU without TensorFlow")
_DEVICE = flags.DEFINE_enum("device", "cpu", ["cpu", "gpu"], "where they run")
_MODES = flags.DEFINE_multi_enum("modes", None, _STITCHED, "ways to stitch; several may be given")
_MODES_EACH = flags.DEFINE_integer("modes_each", len(_STITCHED), "in how many of them each program runs, in turn",
                                   lower_bound=1)  # fmt: skip
_JOBS = flags.DEFINE_integer("jobs", 2, "processes that work at a time", lower_bound=1)
_CHUNK = flags.DEFINE_integer("chunk", 100, "programs to a process", lower_bound=1)
_LIMIT = flags.DEFINE_float("limit", 60, "seconds that a program may take")
_SECONDS = flags.DEFINE_float("seconds", None, "begin nothing new after so long")
_REDUCE = flags.DEFINE_float("reduce", 90, "seconds for cutting down a failure")
_STATE = flags.DEFINE_string("state", None, "a JSON line a program and mode; those that are there are not run again")
_FAILURES = flags.DEFINE_string("failures", "fuzz_failures", "folder of programs that differ")
_CACHE = flags.DEFINE_string("cache", str(Path(tempfile.gettempdir()) / "tf_stitch_fuzz_cache"), "TF_STITCH_CACHE")
_OUT = flags.DEFINE_string("out", None, "JSON file for the figures, and a table beside it")
_KNOWN = flags.DEFINE_string("known", "", "pattern of programs that are known to fail, or of how they do: counted, not "
                             "cut down")
_SHOW = flags.DEFINE_bool("show", False, "print the programs and run nothing")
_PASSES = ("same", "rounding", "known", "no program")


def seeds() -> range:
    """What --seeds asks for."""
    first, colon, end = _SEEDS.value.partition(":")
    return range(int(first), int(end) if colon else int(first) + 1)


def modes() -> tuple[str, ...]:
    """What --modes asks for: the generator's own."""
    return tuple(_MODES.value or (m for m in _STITCHED if (m in FIRST_CALLS) == (_GENERATOR.value == "training")))


def show() -> None:
    """Prints the programs."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Worker(PLAIN, _DEVICE.value, Path(folder), Path(folder) / "log")
        for seed in seeds():
            answer = plain.ask(_LIMIT.value, do="draw", generator=_GENERATOR.value, seed=seed)
            print(decode(answer["program"]).script(f"{_GENERATOR.value} seed {seed}"))
        plain.close()


def main(arguments: Sequence[str]) -> int:
    if len(arguments) > 1:
        raise app.UsageError(f"unexpected {arguments[1:]}")
    if _SHOW.value:
        show()
        return 0
    if _GENERATOR.value == "kernels":
        command = f"python -m tools.fuzz --generator=kernels --seeds={_SEEDS.value}"
        out = Path(_OUT.value) if _OUT.value else None
        return run_kernel_graphs(seeds(), _JOBS.value, _SECONDS.value or 3600, out, command)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(_STATE.value or f"{folder}/state.jsonl")
        options = Options(_GENERATOR.value, _DEVICE.value, modes(), _MODES_EACH.value, _CHUNK.value,
                          _LIMIT.value, _REDUCE.value, Path(_CACHE.value), state, Path(_FAILURES.value),
                          begin + (_SECONDS.value or float("inf")), _KNOWN.value)  # fmt: skip
        ran = 0
        for outcome in run_campaign(options, seeds(), _JOBS.value):
            ran += 1
            if outcome["outcome"] not in _PASSES:
                print(json.dumps(outcome, indent=1), flush=True)
        wanted = set(seeds())
        outcomes = [o for (seed, _), o in done_before(state, _GENERATOR.value).items() if seed in wanted]
    print(table(outcomes))
    if _OUT.value:
        command = command_line(sys.argv)
        write_summary(Path(_OUT.value), outcomes, _DEVICE.value, command)
    print(*(f"{count} {reason}" for reason, count in Counter(
        f.rpartition(" (")[0] for o in outcomes for f in o.get("fallbacks", [])).most_common(20)), sep="\n")
    print(f"{ran} runs in {time.monotonic() - begin:.0f} s")
    return 1 if any(o["outcome"] not in _PASSES for o in outcomes) else 0


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
