"""One first step in a forked process, and what became of it."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 180.0
"""Seconds after which a step hangs."""


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        how: "right", "wrong", "TensorFlow's error", "another error", "killed", "hung", or "signal N".
        seconds: that it took.
        counts: what its kernel cache counted; None if tf_stitch was off, or it did not come to its end.
        message: of an error.
    """

    how: str
    seconds: float
    counts: dict[str, int] | None = None
    message: str = ""


def steps() -> list[float]:
    """Two training steps, with a variable's values; as tests/end_to_end/programs/small.py."""
    import numpy as np
    import tensorflow as tf

    x = tf.constant(np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32))
    weight = tf.Variable(x[:4])

    @tf.function
    def train(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = tf.nn.softmax(tf.matmul(x, weight, transpose_b=True))
            loss = tf.reduce_mean(tf.square(y * 2.0 - 1.0)) + 0.1 * tf.reduce_mean(tf.tanh(weight) ** 2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    return [*(float(train(x)) for _ in range(2)), *weight.numpy().ravel().tolist()]


def run(prepare: Callable[[], None], expected: list[float] | None, kill_after: float | None = None) -> Ended:
    """Forks, prepares, takes the steps.

    Args:
        expected: what the steps should give; None: whatever they give is right, and is the message, as JSON.
        kill_after: seconds after which the process is killed.
    """
    read, write = os.pipe()
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _child(prepare, write)
    os.close(write)
    killed = False
    text = b""
    deadline = start + (PATIENCE if kill_after is None else kill_after)
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            killed = True
            os.kill(pid, signal.SIGKILL)
            break
        part = os.read(read, 1 << 16)
        if not part:
            break
        text += part
    os.close(read)
    status = os.waitpid(pid, 0)[1]
    seconds = time.monotonic() - start
    if killed:
        return Ended("hung" if kill_after is None else "killed", seconds)
    if os.WIFSIGNALED(status):
        return Ended(f"signal {os.WTERMSIG(status)}", seconds)
    said = json.loads(text) if text else {"how": "another error", "message": f"ended with status {status}"}
    return _judged(said, expected, seconds)


def _judged(said: dict[str, Any], expected: list[float] | None, seconds: float) -> Ended:
    if "values" not in said:
        return Ended(said["how"], seconds, None, said["message"])
    if expected is None:
        return Ended("right", seconds, said["counts"], json.dumps(said["values"]))
    right = len(said["values"]) == len(expected) and all(
        abs(a - b) <= 1e-5 * abs(b) + 1e-7 for a, b in zip(said["values"], expected, strict=True))
    return Ended("right" if right else "wrong", seconds, said["counts"])


def _child(prepare: Callable[[], None], write: int) -> None:
    """Says what happened, and ends without what a program does at its end: limits are in force still."""
    import tensorflow as tf

    said: dict[str, Any]
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1), os.dup2(quiet, 2)
        prepare()
        said = {"values": steps(), "counts": _counts()}
    except tf.errors.OpError as error:
        said = {"how": "TensorFlow's error", "message": str(error)[:300]}
    except BaseException:
        said = {"how": "another error", "message": traceback.format_exc()[-600:]}
    os.write(write, json.dumps(said).encode())
    os._exit(0)


def _counts() -> dict[str, int] | None:
    from tf_stitch.plugin.activation import current_session

    session = current_session()
    return None if session is None else session.registry.cache.counts()


def damaged(folder: Path) -> list[str]:
    """Files of a cache folder that are not as they were written."""
    from tf_stitch.atomic_file import PARTIAL, read_verified
    from tf_stitch.errors import DamagedFileError

    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith(PARTIAL) and path.suffix != ".lock":
            try:
                read_verified(path)
            except DamagedFileError as error:
                found.append(error.message)
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
