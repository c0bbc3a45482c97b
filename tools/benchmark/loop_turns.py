"""One of Keras' own loops on several backends: first epochs side by side, then timed turns, one process at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tools.benchmark.loop_worker import BATCHES
from tools.benchmark.peers import PEERS
from tools.benchmark.timed_case import TimedCase
from tools.benchmark.workers import BACKENDS, Worker

FIELDS = ("network", "loop", "batch", "steps", "backend", "median_ms", "least_ms", "most_ms", "first_epoch_s")


def measured(network: str, loop: str, batch: str, steps: str, backends: Sequence[str], rounds: int, ready: float
             ) -> list[dict[str, object]]:  # fmt: skip
    """A row for each backend.

    Args:
        steps: of an execution.
        ready: seconds for the first epochs.
    """
    cases = [_case(network, loop, batch, steps, short) for short in backends]
    end = time.monotonic() + ready

    def first(case: TimedCase) -> None:
        answer = case.ask(1, 0, limit=end - time.monotonic())
        if answer is not None:
            case.row["first_epoch_s"] = round(answer["warm_up_s"], 1)

    with ThreadPoolExecutor(len(cases)) as pool:
        list(pool.map(first, cases))
    for _ in range(rounds):
        for case in cases:
            answer = case.ask(1, 2, limit=120)
            if answer is not None:
                case.times.append(answer["ms"] / BATCHES)
    for case in cases:
        case.end()
    return [case.row for case in cases]


def _case(network: str, loop: str, batch: str, steps: str, short: str) -> TimedCase:
    backend = BACKENDS.get(short, short)
    variables = PEERS[short].variables if short in PEERS else {}
    worker = Worker("loop_worker", network, loop, batch, steps, backend=backend, variables=variables)
    return TimedCase(worker, network=network, loop=loop, batch=batch, steps=steps, backend=backend)
