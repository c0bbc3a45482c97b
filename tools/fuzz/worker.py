"""A process that runs programs. Reads requests, a JSON object a line, from stdin; answers on the file descriptor of its
first argument; the second is the device. The environment that it starts with decides whether, and how, graphs are
rewritten."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tools.fuzz.calling import Calling, Kernels, error, result, written
from tools.fuzz.programs import Program, encode

_ATTEMPTS = 12


def main() -> None:
    device = sys.argv[2]
    if device == "gpu" and not tf.config.list_physical_devices("GPU"):
        raise SystemExit("TensorFlow sees no GPU")
    tf.get_logger().setLevel(logging.ERROR)
    tf.config.experimental.enable_tensor_float_32_execution(False)  # its 10 bits hide what differs
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    answers = os.fdopen(int(sys.argv[1]), "w")
    for line in sys.stdin:
        request, begin = json.loads(line), sum(os.times()[:4])
        answer = _DO[request.pop("do")](**request)
        answers.write(json.dumps(answer | {"cpu": sum(os.times()[:4]) - begin}) + "\n")
        answers.flush()


def draw(generator: str, seed: int) -> dict[str, Any]:
    """A program that TensorFlow traces, and what came of running it."""
    for attempt in range(_ATTEMPTS):
        program = _program(generator, seed, attempt)
        result = run(program.source())
        if not result["failed"] or (program.facts.get("raises") == "True" and "trace" not in result["failed"]):
            break
    return {"program": encode(program), "result": result}


def _program(generator: str, seed: int, attempt: int) -> Program:
    if generator == "nnsmith":
        from tools.fuzz.nnsmith_programs import nnsmith_program

        return nnsmith_program(seed * _ATTEMPTS + attempt)
    if generator == "shapes":
        from tools.fuzz.shape_programs import shape_program

        return shape_program(seed * 1000 + attempt)
    if generator == "training":
        from tools.fuzz.training_programs import TrainingGenerator

        return TrainingGenerator(f"{seed} {attempt}").program()
    from tools.fuzz.generator import Generator

    return Generator(f"{seed} {attempt}").program()


def run(source: str, noise: int | None = None) -> dict[str, Any]:
    """Every call's results.

    Args:
        noise: number of the noise for what rounds, 0 to run eagerly without any.

    Returns:
        calls: for each call its values, or the error; where there is a schedule, variables after each, too; state:
        variables afterwards; failed: the error of a first call, or ""; regions, fallbacks: what tf_stitch did;
        changed: functions that changed over to kernels, by kind of action.
    """
    scope: dict[str, Any] = {"tf": tf, "np": np, "array": np.array, "inf": np.inf, "nan": np.nan}
    if noise is not None:
        from tools.fuzz.noise import Noise, noise_in_ops

        scope["noise"] = Noise(noise)
    regions, fallbacks = _counts()
    with _eagerly(noise == 0), noise_in_ops(noise) if noise else contextlib.nullcontext():
        try:
            exec(source, scope)
            if noise != 0:
                scope["program"].get_concrete_function()
        except Exception as wrong:  # the program may be wrong
            return {"calls": [error(wrong)], "state": [], "failed": f"trace: {wrong}", "regions": 0, "fallbacks": []}
        calling = Calling(scope["program"], scope["CALLS"], scope["STATE"], scope.get("COUNTERS", []), kernels())
        if "SCHEDULE" in scope:
            calls, failed = calling.follow(scope["SCHEDULE"])
        else:
            calls = [result(scope["program"], arguments) for arguments in scope["CALLS"]]
            failed = next((f"{c['type']}: {c['message']}" for c in calls if isinstance(c, dict)), "")
    state = [] if failed else [written(v) for v in scope["STATE"]]
    now_regions, now_fallbacks = _counts()
    return {"calls": calls, "state": state, "failed": failed, "regions": now_regions - regions,
            "changed": +calling.changed,
            "fallbacks": [f"{s}: {reason} ({n})" for (s, _, reason), n in (now_fallbacks - fallbacks).items()]}


class _Kernels:
    def __init__(self, session: Any) -> None:
        self._session = session

    def wait(self, seconds: float) -> bool:
        done: bool = self._session.finish_builds(seconds)
        return done

    def changed(self) -> int:
        calls = self._session.first_calls
        return 0 if calls is None else int(calls.changed)


def kernels() -> Kernels | None:
    """Those of this process; None if graphs are not rewritten in it."""
    session = _session()
    return _Kernels(session) if session is not None else None


@contextlib.contextmanager
def _eagerly(on: bool) -> Iterator[None]:
    tf.config.run_functions_eagerly(on)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def _counts() -> tuple[int, Counter[tuple[str, str, str]]]:
    """Regions and fallbacks of the process so far."""
    session = _session()
    return (session.report.regions_seen, session.report.fallbacks) if session is not None else (0, Counter())


def _session() -> Any:
    if os.environ.get("TF_STITCH", "0") == "0":
        return None
    from tf_stitch.plugin.activation import current_session

    session = current_session()
    if session is None:
        raise SystemExit("tf_stitch is not active in this process")
    return session


_DO = {"draw": draw, "run": run}

if __name__ == "__main__":
    main()
