"""Random programs that read and update variables, stitched, beside NumPy: is every read in its place?

    python -m tools.fuzz.variables --seeds=0:5000 --jobs=14 --out=benchmarks/variable_programs.md
    python -m tools.fuzz.variables --seeds=17                 one
    python -m tools.fuzz.variables --seeds=0:100 --kernels    by kernels, rather than by TensorFlow's ops in regions
    python -m tools.fuzz.variables --seeds=0:100 --in_turns   by either, in every other call
    python -m tools.fuzz.variables --seeds=0:100 --selects    both sides of branches are computed, as on a GPU

Each program is called several times, with other branches and trip counts; its results and what its variables have are
compared after each call. The exit code is 1 if one was wrong. The order of accesses does not depend on what runs a
region's nodes, and without kernels most of the time goes into TensorFlow.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tools.forced_forms import UNBUILT, force, runs

if TYPE_CHECKING:
    from tf_stitch.plugin.session import Session

CALLS = 8
CHUNK = 25
"""Programs to a process: it keeps what TensorFlow keeps of each."""
PATIENCE = 30.0
"""Seconds for each program of a process, which else does not end."""
KERNELS, IN_TURNS = "kernels", "in_turns"
WHAT_RUNS = {UNBUILT: "TensorFlow ops in regions", KERNELS: "kernels", IN_TURNS: "kernels and TensorFlow ops in turns"}
REFUSED = "in the rewritten graph, which uses the same variable", "lost an update"


Case: TypeAlias = tuple[int, str]
"""A seed, and what became of its program."""


@dataclass(frozen=True)
class Outcome:
    """What came of a program; `wrong` says what differed, "" if nothing did."""

    seed: int
    wrong: str


def try_program(seed: int, calls: int = CALLS) -> Outcome:
    """Runs the program of a seed. (Where graphs are rewritten, and how, is the caller's matter.)"""
    import tensorflow as tf

    from tools.fuzz.variable_programs import FLAGS, SIDE, NumPyMachine, TensorFlowMachine, draw, run

    program, rng = draw(seed), np.random.default_rng(seed)
    first = [rng.uniform(-1, 1, (SIDE, SIDE)) for _ in range(program.variables)]
    variables = [tf.Variable(value.astype(np.float32)) for value in first]
    wanted = NumPyMachine(first, (), 0)

    @tf.function(autograph=False)
    def step(x: tf.Tensor, flags: tf.Tensor, trips: tf.Tensor) -> Any:
        return run(program, TensorFlowMachine(variables, flags, trips), x)

    for call in range(calls):
        x = rng.uniform(-1, 1, (SIDE, SIDE)).astype(np.float32)
        wanted.flags, wanted.trips = [bool(flag) for flag in rng.integers(0, 2, FLAGS)], int(rng.integers(0, 4))
        results = step(tf.constant(x), tf.constant(wanted.flags), tf.constant(wanted.trips))
        right = run(program, wanted, x.astype(np.float64))
        for kind, got, have in (("result", results, right), ("variable", variables, wanted.variables)):
            for i, (one, other) in enumerate(zip(got, have, strict=True)):
                if not np.allclose(one.numpy(), other, rtol=2e-3, atol=2e-3):
                    return Outcome(seed, f"{kind} {i} in call {call}")
        for variable, value in zip(variables, wanted.variables, strict=True):  # rounding does not add up
            variable.assign(np.clip(value, -2, 2))
        wanted.variables = [np.clip(value, -2, 2) for value in wanted.variables]
    return Outcome(seed, "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:100", help="one seed, or FIRST:END")
    parser.add_argument("--kernels", dest="form", action="store_const", const=KERNELS, default=UNBUILT)
    parser.add_argument("--in_turns", dest="form", action="store_const", const=IN_TURNS)
    parser.add_argument("--selects", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after so long")
    parser.add_argument("--out", type=Path, help="a table")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    first, _, end = args.seeds.partition(":")
    seeds = range(int(first), int(end or int(first) + 1))
    if args.here:
        print(json.dumps(_chunk(seeds, args.form, args.selects)))
        return 0
    begin, counts, failures, refusals = time.monotonic(), Counter[str](), list[Case](), list[Case]()

    def chunk(start: int) -> dict[str, Any] | None:
        if time.monotonic() - begin > args.seconds:
            return None
        return _in_a_process(range(start, min(start + CHUNK, seeds.stop)),
                             [f"--{args.form}"] * (args.form != UNBUILT) + ["--selects"] * args.selects)

    with ThreadPoolExecutor(args.jobs) as pool:
        for part in filter(None, pool.map(chunk, range(seeds.start, seeds.stop, CHUNK))):
            counts.update(part["counts"])
            failures += part["failures"]
            refusals += part["refusals"]
            print(f"{dict(counts)} {failures} {refusals}", flush=True)
    if args.out is not None:
        args.out.write_text(_table(counts, failures, refusals, args.form))
    return bool(failures)


def _in_a_process(seeds: range, options: Sequence[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tools.fuzz.variables", f"--seeds={seeds.start}:{seeds.stop}", "--here"]
    settings = {"TF_STITCH": "0", "TF_STITCH_ASYNC": "0", "TF_STITCH_GUARD": "0", "TF_STITCH_MIN_REGION": "1",
                "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, **settings}, timeout=PATIENCE * len(seeds))
    except subprocess.TimeoutExpired:
        return _ended("hung", (seeds.start, f"one of {len(seeds)} programs did not end"))
    if done.returncode:
        return _ended("crashed", (seeds.start, f"the process ended with {done.returncode}"))
    part: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return part


def _ended(how: str, case: Case) -> dict[str, Any]:
    return {"counts": {how: 1}, "failures": [case], "refusals": []}


def _chunk(seeds: range, form: str, selects: bool) -> dict[str, Any]:
    from tf_stitch.config import StitchConfig
    from tf_stitch.plugin import activation

    if selects:
        _compute_both_sides()
    if form != KERNELS:
        force(form)
    activation.enable(StitchConfig(enabled=True, async_builds="0", profitability_check=form == IN_TURNS, min_region=1))
    session, failures, refusals = activation.current_session(), list[Case](), list[Case]()
    assert session is not None
    session.report.most_gone = len(seeds) * CALLS  # their graphs are gone, their runs still count
    for seed in seeds:
        try:
            outcome = try_program(seed)
        except Exception as error:  # a program's own end is a result
            outcome = Outcome(seed, f"{type(error).__name__}: {str(error)[:200]}")
        if outcome.wrong:
            failures.append((seed, outcome.wrong))
        new = _refusals(session) - Counter(reason for _, reason in refusals)
        refusals += [(seed, reason) for reason in new.elements()]
    by_kernels, by_fallbacks = runs()
    return {"failures": failures, "refusals": refusals,
            "counts": {"programs": len(seeds), "calls": len(seeds) * CALLS, "wrong": len(failures),
                       "regions": session.report.regions_seen, "run by kernels": by_kernels,
                       "run by TensorFlow": by_fallbacks, "refused": len(refusals)}}  # fmt: skip


def _refusals(session: Session) -> Counter[str]:
    """Why graphs kept TensorFlow's nodes because an order was not proved, so far."""
    return Counter({entry["reason"]: entry["count"] for entry in session.document()["fallbacks"]
                    if any(part in entry["reason"] for part in REFUSED)})


def _compute_both_sides() -> None:
    """Has branches on a CPU give way to selects."""
    from tf_stitch.graph.branches import branch_nodes
    from tf_stitch.graph.passes.branches_to_selects import BranchesToSelects
    from tf_stitch.graph.state import GraphState
    from tf_stitch.pass_manager import PassResult

    convert = BranchesToSelects.run

    def run(self: BranchesToSelects, state: GraphState) -> PassResult[GraphState]:
        done = convert(self, replace(state, device_type="GPU"))
        return replace(done, graph=replace(done.graph, device_type=state.device_type))

    BranchesToSelects.run = run  # type: ignore[method-assign]
    branch_nodes.device_type = lambda device: "GPU"


def _table(counts: Counter[str], failures: list[Case], refusals: list[Case], form: str) -> str:
    from tools.benchmark.raw_rows import command_line

    columns = ("programs", "calls", "regions", "run by kernels", "run by TensorFlow", "refused", "wrong", "crashed",
               "hung")
    lines = ["# Programs that read and update variables, stitched and in NumPy", "",
             f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}, {WHAT_RUNS[form]}: "
             f"`{command_line(sys.argv)}`", "", f"| {' | '.join(columns)} |", "| ---: " * len(columns) + "|",
             f"| {' | '.join(str(counts[column]) for column in columns)} |"]  # fmt: skip
    lines += ["", *(f"- seed {seed}: {what}" for seed, what in (*failures, *refusals))] if failures or refusals else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
