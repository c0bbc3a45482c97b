"""What is done with a program whose results differ: is it rounding, and what is the smallest program that shows it."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.fuzz.programs import Program, Step
from tools.fuzz.reduction import reduce_program
from tools.fuzz.verdicts import Difference, array, difference
from tools.fuzz.workers import MODES, CrashError, HangError, Worker

_NOISES = 4
_EAGERLY = 0
_MOST_TEXT = 4000


def judge(program: Program, plain: Worker, stitched: Worker, seconds: float, want: dict[str, Any] | None = None,
          ) -> tuple[Difference | None, bool, dict[str, Any]]:  # fmt: skip
    """The difference that rounding does not explain; whether there was one that it does; the stitched result.

    Args:
        want: plain TensorFlow's result, if it is known.

    Raises:
        CrashError, HangError: plain TensorFlow itself does.
    """
    source = program.source()
    want = want or plain.ask(seconds, do="run", source=source)
    try:
        got = stitched.ask(seconds, do="run", source=source)
    except CrashError as crash:
        return Difference("crash", str(crash)), False, {}
    except HangError as hang:
        return Difference("hang", str(hang)), False, {}
    found = difference(want, got)
    if found is None or found.kind == "crash":
        return found, False, got
    others, noisy, silent = [plain.ask(seconds, do="run", source=source)], program.source(noisy=True), ""
    real: Difference | None = found
    for number in (*range(1, _NOISES + 1), _EAGERLY):  # until one explains it: most do
        others.append(plain.ask(seconds, do="run", source=noisy, noise=number))
        if others[-1]["failed"].startswith("trace") and not want["failed"]:
            silent = silent or others[-1]["failed"]
        real = difference(want, got, others)
        if real is None:
            break
    wide = program.wide()
    if real is not None and wide is not None:
        answer = plain.ask(seconds, do="run", source=wide)
        real = real if answer["failed"] else difference(want, got, [*others, answer])
    if real is not None and silent:
        real = replace(real, message=f"{real.message} (noise could not be had: {silent})")
    return real, real is None, got


def fails(program: Program, kind: str, plain: Worker, stitched: Worker, seconds: float) -> bool:
    """Whether the program differs in that way, and plain TensorFlow survives it."""
    try:
        found, _, _ = judge(program, plain, stitched, seconds)
    except (CrashError, HangError):
        return False
    return found is not None and found.kind == kind


def reduced(program: Program, kind: str, plain: Worker, stitched: Worker, seconds: float, budget: float) -> Program:
    """The smallest program found within `budget` seconds that differs in the same way."""
    until = time.monotonic() + budget

    def fails_too(candidate: Program) -> bool:
        return time.monotonic() < until and fails(candidate, kind, plain, stitched, min(seconds, 20.0))

    def value(whole: Program, name: str) -> tuple[str, str] | None:
        if time.monotonic() > until:
            return None
        asked = replace(whole, outputs=(name,), sources=(), calls=whole.calls[:1])
        try:
            call = plain.ask(seconds, do="run", source=asked.source())["calls"][0]
        except (CrashError, HangError, IndexError):
            return None
        return _text(call[0]) if isinstance(call, list) and call else None

    return reduce_program(program, fails_too, value)


def _text(value: Sequence[Any]) -> tuple[str, str] | None:
    found = array(value)
    if found.dtype == object:
        return f"tf.TensorSpec({value[1]}, tf.string)", f"tf.constant({found.astype(str).tolist()!r})"
    plain = found.astype("float64") if found.dtype.kind not in "biu" else found
    text = repr(plain.tolist())
    if len(text) > _MOST_TEXT:
        return None
    empty = f"np.zeros({value[1]})" if found.size == 0 else f"np.array({text})"
    return f"tf.TensorSpec({value[1]}, tf.{value[0]})", f"tf.cast({empty}, tf.{value[0]})"


def write_script(program: Program, mode: str, found: Difference, title: str, folder: Path) -> Path:
    """Writes the program as a file that runs by itself."""
    environ = " ".join(f"{k}={v}" for k, v in MODES[mode].items())
    why = "\n".join(textwrap.wrap(f"{title}, mode {mode} ({environ}): {found.kind}", 115))
    said = found.message.replace("\\", "/").replace('"""', "'''")[:1500]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{title.replace(' ', '_')}_{mode}_{found.kind}.py"
    path.write_text(program.script(f"{why}\n\n{said}\n\nRun it with TF_STITCH=0, and with {environ}."))
    return path


def steps_of(steps: Sequence[Step]) -> int:
    """How many steps, those of blocks included."""
    return sum(1 + sum(steps_of(b.steps) for b in step.blocks) for step in steps)
