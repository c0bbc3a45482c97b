"""A process that runs programs. Reads requests, a JSON object a line, from stdin; answers on the file descriptor of its
first argument; the second is the device. The environment that it starts with decides whether, and how, graphs are
rewritten."""

from __future__ import annotations

import base64
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
    from tools.fuzz.generator import Generator

    return Generator(f"{seed} {attempt}").program()


def run(source: str, noise: int | None = None) -> dict[str, Any]:
    """Every call's results.

    Args:
        noise: number of the noise for what rounds, 0 to run eagerly without any.

    Returns:
        calls: for each call its values, or the error; state: variables afterwards; failed: the error of a first call,
        or ""; regions, fallbacks: what tf_stitch did.
    """
    scope: dict[str, Any] = {"tf": tf, "np": np, "array": np.array, "inf": np.inf, "nan": np.nan}
    if noise is not None:
        from tools.fuzz.noise import Noise, noise_in_ops

        scope["noise"] = Noise(noise)
    regions, fallbacks = _counts()
    calls: list[Any] = []
    failed = ""
    with _eagerly(noise == 0):
        try:
            exec(source, scope)
            function = scope["program"]
            if noise != 0:
                with noise_in_ops(noise) if noise else contextlib.nullcontext():
                    function.get_concrete_function()
        except Exception as error:  # the program may be wrong
            return {"calls": [_error(error)], "state": [], "failed": f"trace: {error}", "regions": 0, "fallbacks": []}
        for arguments in scope["CALLS"]:
            try:
                calls.append([_value(x) for x in tf.nest.flatten(function(*arguments), expand_composites=True)
                              if x is not None])  # fmt: skip
            except Exception as error:  # to be compared with what the other does
                calls.append(_error(error))
                failed = failed or f"{type(error).__name__}: {error}"
    state = [] if failed else [_value(v) for v in scope["STATE"]]
    now_regions, now_fallbacks = _counts()
    return {"calls": calls, "state": state, "failed": failed, "regions": now_regions - regions,
            "fallbacks": [f"{s}: {reason} ({n})" for (s, _, reason), n in (now_fallbacks - fallbacks).items()]}


@contextlib.contextmanager
def _eagerly(on: bool) -> Iterator[None]:
    tf.config.run_functions_eagerly(on)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def _value(tensor: Any) -> list[Any]:
    array = np.asarray(tensor.numpy())
    if array.dtype == object:
        return ["object", list(array.shape), [str(x) for x in array.reshape(-1)]]
    return [array.dtype.name, list(array.shape), base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()]


def _error(error: Exception) -> dict[str, str]:
    return {"type": type(error).__name__, "message": str(error)[:2000]}


def _counts() -> tuple[int, Counter[tuple[str, str, str]]]:
    """Regions and fallbacks of the process so far."""
    if os.environ.get("TF_STITCH", "0") == "0":
        return 0, Counter()
    from tf_stitch.plugin.activation import current_session

    session = current_session()
    if session is None:
        raise SystemExit("tf_stitch is not active in this process")
    return session.report.regions_seen, session.report.fallbacks


_DO = {"draw": draw, "run": run}

if __name__ == "__main__":
    main()
