"""Runs seeds in every mode, chunk by chunk, on several lanes at once; keeps a line a program and mode."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.fuzz.failures import fails, judge, reduced, steps_of, write_script
from tools.fuzz.programs import Program, decode
from tools.fuzz.workers import PLAIN, CrashError, HangError, Worker


@dataclass(frozen=True)
class Options:
    """What a campaign does.

    Attributes:
        generator: "ops", "training" or "nnsmith".
        modes: of `workers.MODES`.
        modes_each: in how many of them a program runs; the next chunk begins with the next mode.
        chunk: programs that one process of a mode runs before the next mode's turn.
        limit: seconds that a program may take.
        reduce: seconds for cutting down one failure; 0 for none.
        state: a JSON line for every program and mode.
        failures: folder of programs that failed.
        stop: time on the monotonic clock after which nothing is begun.
        known: pattern of programs, or of what differs, whose failures are known, and not cut down.
    """

    generator: str
    device: str
    modes: tuple[str, ...]
    modes_each: int
    chunk: int
    limit: float
    reduce: float
    cache: Path
    state: Path
    failures: Path
    stop: float
    known: str


Outcome = dict[str, Any]


def done_before(state: Path, generator: str) -> dict[tuple[int, str], Outcome]:
    """What the state file has, by seed and mode."""
    if not state.exists():
        return {}
    lines = [json.loads(line) for line in state.read_text().splitlines() if line.endswith("}")]
    return {(line["seed"], line["mode"]): line for line in lines if line["generator"] == generator}


def run_campaign(options: Options, seeds: Sequence[int], lanes: int) -> Iterator[Outcome]:
    """Outcomes of what the state file lacks, as they come; they are appended to the file."""
    done = done_before(options.state, options.generator)
    chunks: queue.SimpleQueue[list[tuple[int, list[str]]]] = queue.SimpleQueue()
    left = [(seed, [m for m in _modes_of(options, seed) if (seed, m) not in done]) for seed in seeds]
    left = [(seed, modes) for seed, modes in left if modes]
    for begin in range(0, len(left), options.chunk):
        chunks.put(left[begin:begin + options.chunk])
    found: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
    threads = [threading.Thread(target=_lane, args=(options, chunks, found), daemon=True) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    options.state.parent.mkdir(parents=True, exist_ok=True)
    with options.state.open("a") as state:
        running = lanes
        while running:
            outcome = found.get()
            if outcome is None:
                running -= 1
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                state.write(json.dumps(outcome) + "\n")
                state.flush()
                yield outcome


def _in_turn(options: Options, seed: int) -> tuple[str, ...]:
    """All modes; another is first for every chunk: there may be time for few."""
    first = seed // options.chunk % len(options.modes)
    return options.modes[first:] + options.modes[:first]


def _modes_of(options: Options, seed: int) -> tuple[str, ...]:
    return _in_turn(options, seed)[:options.modes_each]


def _lane(options: Options, chunks: queue.SimpleQueue[list[tuple[int, list[str]]]],
          found: queue.SimpleQueue[Outcome | BaseException | None]) -> None:  # fmt: skip
    try:
        with contextlib.suppress(queue.Empty):
            while time.monotonic() < options.stop:
                for outcome in _chunk(options, chunks.get_nowait()):
                    found.put(outcome)
        found.put(None)
    except BaseException as error:  # the main thread raises it
        found.put(error)


@contextlib.contextmanager
def _worker(options: Options, mode: str) -> Iterator[Worker]:
    with tempfile.TemporaryDirectory(prefix="tf_stitch_fuzz_") as folder:
        worker = Worker(mode, options.device, options.cache, Path(folder) / "log")
        try:
            yield worker
        finally:
            worker.close()


def _chunk(options: Options, todo: Sequence[tuple[int, list[str]]]) -> Iterator[Outcome]:
    with _worker(options, PLAIN) as plain:
        drawn: dict[int, tuple[Program, dict[str, Any]]] = {}
        for seed, modes in todo:
            if time.monotonic() > options.stop:
                break
            try:
                answer = plain.ask(options.limit, do="draw", generator=options.generator, seed=seed)
                drawn[seed] = decode(answer["program"]), answer["result"]
            except (CrashError, HangError) as error:  # of TensorFlow's, or of NNSmith's solver
                said = str(error)[-300:]
                yield from (_outcome(options, seed, mode, "no program", message=said) for mode in modes)
        small: dict[tuple[int, str], Program] = {}
        for mode in _in_turn(options, todo[0][0]):
            if not any(mode in modes for _, modes in todo):
                continue
            with _worker(options, mode) as stitched:
                for seed, modes in todo:
                    if mode in modes and seed in drawn and time.monotonic() < options.stop:
                        yield _one(options, seed, mode, *drawn[seed], plain, stitched, small)


def _one(options: Options, seed: int, mode: str, program: Program, want: dict[str, Any], plain: Worker,
         stitched: Worker, small: dict[tuple[int, str], Program]) -> Outcome:  # fmt: skip
    """What comes of a program in a mode.

    Args:
        small: what programs of other modes were cut down to, by seed and kind of failure; is added to.
    """
    begin = time.monotonic()
    try:
        found, rounding, got = judge(program, plain, stitched, options.limit, want)
    except (CrashError, HangError) as error:
        return _outcome(options, seed, mode, "no program", message=str(error)[:300])
    facts = {"steps": steps_of(program.steps), "regions": got.get("regions", 0), "fallbacks": got.get("fallbacks", []),
             "seconds": round(time.monotonic() - begin, 3), "cpu": round(got.get("cpu", 0.0), 3),
             "failed": want["failed"][:100], "changed": got.get("changed", {})}  # fmt: skip
    if found is None:
        return _outcome(options, seed, mode, "rounding" if rounding else "same", **facts)
    if options.known and re.search(options.known, f"{program.source()}\n{found.message}"):
        return _outcome(options, seed, mode, "known", message=found.message[:300], **facts)
    if options.reduce:
        begun = small.get((seed, found.kind))
        if begun is None or not fails(begun, found.kind, plain, stitched, options.limit):
            program = reduced(program, found.kind, plain, stitched, options.limit, options.reduce)
        else:
            program = begun
        small[seed, found.kind] = program
        with contextlib.suppress(CrashError, HangError):
            found = judge(program, plain, stitched, options.limit)[0] or found
    path = write_script(program, mode, found, f"{options.generator} seed {seed}", options.failures)
    return _outcome(options, seed, mode, found.kind, message=found.message[:600], program=path.name,
                    reduced=steps_of(program.steps), **facts)  # fmt: skip


def _outcome(options: Options, seed: int, mode: str, outcome: str, **facts: Any) -> Outcome:
    return {"generator": options.generator, "seed": seed, "mode": mode, "outcome": outcome, **facts}


def table(outcomes: Sequence[Mapping[str, Any]]) -> str:
    """How often what came out, by generator and mode, as Markdown."""
    kinds = ("same", "rounding", "value", "raises", "silent", "type", "crash", "hang", "known", "no program")
    lines = ["| generator | mode | programs | regions | programs with a fallback | " + " | ".join(kinds) + " |",
             "| --- | --- |" + " --- |" * (3 + len(kinds))]  # fmt: skip
    for generator, mode in sorted({(o["generator"], o["mode"]) for o in outcomes}):
        rows = [o for o in outcomes if (o["generator"], o["mode"]) == (generator, mode)]
        counts = Counter(o["outcome"] for o in rows)
        cells = [generator, mode, len(rows), sum(o.get("regions", 0) for o in rows),
                 sum(bool(o.get("fallbacks")) for o in rows), *(counts[kind] for kind in kinds)]  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
