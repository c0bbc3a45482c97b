"""Workers that train together, each a process of its own, on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Run, Runner

STEPS = 50
pytestmark = pytest.mark.timeout(600)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def both(run: Runner, stitch: str, leaves: int = -1, how: str = "exit", **variables: str) -> list[Run]:
    ports = ",".join(map(str, free_ports(2)))

    def start(number: int) -> Run:
        return run(PROGRAMS / "two_workers.py", number, ports, STEPS, leaves, how, stitch=stitch, **variables)

    with ThreadPoolExecutor() as pool:
        return list(pool.map(start, (0, 1)))


def said(done: Run) -> dict[str, Any]:
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


def test_two_workers_train_as_in_tensorflow(forked: Runner) -> None:
    """The same losses; variables that are the same bit for bit in both; and what does not wait for the other worker is
    in few regions."""
    results = {}
    for stitch in ("", "1"):
        workers = both(forked, stitch)
        assert [done.returncode for done in workers] == [0, 0], workers[0].stderr[-3000:]
        first, second = map(said, workers)
        assert first == second
        results[stitch] = first["losses"]
    np.testing.assert_allclose(results["1"], results[""], rtol=1e-5)
    for done in workers:
        assert done.report is not None
        steps = [g for g in done.report["graphs"] if "train_step" in g["graph"] and g["regions"]]
        assert steps
        nodes = [node for graph in steps for node in graph["nodes"]]
        assert any(node["op"].startswith("CollectiveReduce") for node in nodes)
        assert len({node["region"] for node in nodes} - {None}) <= 4


def test_each_kernel_is_compiled_once(forked: Runner, cache: Path, tmp_path: Path) -> None:
    """By one of two workers that share a cache and start together; when they come again by none."""
    (tmp_path / "bin").mkdir()
    compiled, real = tmp_path / "compiled", shutil.which("gcc")
    (tmp_path / "bin" / "gcc").write_text(
        f'#!/bin/sh\ncase "$*" in *kernel.c*) echo kernel >> {compiled}; sleep 0.5;; esac\nexec {real} "$@"\n')
    (tmp_path / "bin" / "gcc").chmod(0o755)
    for _ in range(2):
        workers = both(forked, "1", PATH=f"{tmp_path}/bin:{os.environ['PATH']}", TF_STITCH_CACHE=str(cache))
        assert [done.returncode for done in workers] == [0, 0], workers[0].stderr[-3000:]
        kernels = len(list((cache / "kernels").glob("*.so")))
        assert 0 < kernels == len(compiled.read_text().split())
    for done in workers:
        assert done.report is not None
        assert all(counts["misses"] == 0 for counts in done.report["caches"].values())


@pytest.mark.parametrize(("how", "code"), [("exit", 3), ("killed", -signal.SIGKILL)])
def test_a_worker_that_leaves_ends_the_other(forked: Runner, how: str, code: int) -> None:
    """With TensorFlow's error, and without waiting: in the step that it misses, or in the one before, of which it has
    its own result and the other may still want a part from it."""
    errors = {}
    for stitch in ("", "1"):
        stays, left = both(forked, stitch, leaves=20, how=how)
        assert (stays.returncode, left.returncode) == (4, code), stays.stderr[-3000:]
        ended = said(stays)
        assert ended["steps"] in (19, 20)
        errors[stitch] = ended["error"]
    assert errors["1"] == errors[""]
