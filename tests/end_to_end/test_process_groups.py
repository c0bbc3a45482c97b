"""Workers that train together, each a process of its own, on loopback."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
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


def both(run: Runner, stitch: str, leaves: int = -1) -> list[Run]:
    ports = ",".join(map(str, free_ports(2)))

    def start(number: int) -> Run:
        return run(PROGRAMS / "two_workers.py", number, ports, STEPS, leaves, stitch=stitch)

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


def test_a_worker_that_leaves_ends_the_other(forked: Runner) -> None:
    """With TensorFlow's error, and without waiting: in the step that it misses, or in the one before, of which it has
    its own result and the other may still want a part from it."""
    errors = {}
    for stitch in ("", "1"):
        stays, left = both(forked, stitch, leaves=20)
        assert (stays.returncode, left.returncode) == (4, 3), stays.stderr[-3000:]
        ended = said(stays)
        assert ended["steps"] in (19, 20)
        errors[stitch] = ended["error"]
    assert errors["1"] == errors[""]
