"""Networks on several backends: first calls side by side, then timed turns, one process at a time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tools.benchmark.peers import PEERS
from tools.benchmark.timed_case import TimedCase
from tools.benchmark.workers import BACKENDS, Worker

PROFILED = 4
"""Calls."""


@dataclass(frozen=True)
class Turns:
    """How networks are timed.

    Attributes:
        backends: short names, of BACKENDS and PEERS.
        rounds: turns of each backend.
        calls: of a turn.
        warm_up: calls before the first turn.
        ready: seconds for the first calls of all backends.
        scope: what regions hold, as TF_STITCH_SCOPE.
        losses: of so many first calls what they gave is in the rows.
        partial: file for rows and times so far, written after each turn.
        kernels: file for what the device did in a call of each, in the end.
    """

    backends: Sequence[str]
    rounds: int = 5
    calls: int = 20
    warm_up: int = 60
    ready: float = 300
    scope: str = "region"
    losses: int = 0
    partial: Path | None = None
    kernels: Path | None = None


class NetworkCase(TimedCase):
    """A network on a backend."""

    def __init__(self, network: str, short: str, scope: str) -> None:
        self.backend = BACKENDS.get(short, short)
        self.kernels: Mapping[str, Any] | None = None
        self.launches: list[Any] = []
        self.losses: list[Any] = []
        self._peak = 0.0
        program, *arguments = "network_worker", network, self.backend
        variables: Mapping[str, str] = {}
        if short in PEERS:
            peer = PEERS[short]
            program, arguments, variables = peer.program, [network, *peer.arguments], peer.variables
        elif self.backend == "tf_stitch":
            # The first call waits for the kernels, as long as it takes.
            variables = {"TF_STITCH_SCOPE": scope, "TF_STITCH_FIRST_STEP_SECONDS": "600"}
        worker = Worker(program, *arguments, backend=self.backend, variables=variables)
        super().__init__(worker, network=network, backend=self.backend)

    def ask(self, *words: object, limit: float) -> Mapping[str, Any] | None:
        """As TimedCase's; the row has the memory that the answer tells."""
        answer = super().ask(*words, limit=limit)
        if answer is not None and "gpu_mib" in answer:
            self._peak = max(self._peak, answer["gpu_mib"])
            self.row["peak_mib"] = round(self._peak)
            if self.backend not in PEERS:
                self.row["steady_peak_mib"] = round(answer["gpu_mib"])
        return answer

    def first_calls(self, more_losses: int, limit: float) -> None:
        """The first call, whose time is in the row, and after it those whose losses are wanted, too."""
        answer = self.ask(1, 0, "losses", limit=limit)
        if answer is None:
            return
        self.row["first_call_s"] = round(answer["warm_up_s"], 1)
        self.losses += answer["losses"]
        if more_losses > 0 and (answer := self.ask(more_losses, 0, "losses", limit=60)) is not None:
            self.losses += answer["losses"]

    def turn(self, calls: int) -> None:
        answer = self.ask(3, calls, limit=60)
        if answer is not None:
            self.times.append(answer["ms"])
            self.row["result"] = f"{answer['result']:.6g}"

    def profile(self) -> None:
        """What the device does in a call. Times that are there stay if there is no answer."""
        if self._worker is None or not self.times:
            return
        try:
            self.kernels = self._worker.ask(2, PROFILED, "profile", limit=60)
        except (RuntimeError, TimeoutError) as error:
            print(f"{self.row['network']} on {self.backend} has no profile: {error}", file=sys.stderr)

    def finish(self) -> dict[str, object]:
        """The row; the process ends."""
        report = self.end()
        if report is not None:
            self.row |= _regions(report)
            self.launches = [[k["build"], k["launch"], k["rule"], k["domain"], k["predicted_us"], k["bytes"],
                              k["nodes"][-3:]] for k in report["kernels"]]
        if self.times and self.kernels and self.kernels["device_us"]:
            device = self.kernels["device_us"] / 1e3
            median = self.row["median_ms"]
            assert isinstance(median, float)
            self.row |= {"device_ms": round(device, 3), "busy": round(device / median, 3)}
        return self.row


def measure(networks: Sequence[str], turns: Turns) -> Iterator[list[NetworkCase]]:
    """Of each network, once it is measured and its processes ended, a case for each backend that has it.

    All first calls come before the first turn. A case that failed has its error in its row's `median_ms`.
    """
    cases = {network: [NetworkCase(network, short, turns.scope) for short in turns.backends
                       if short not in PEERS or PEERS[short].runs(network)] for network in networks}  # fmt: skip
    end = time.monotonic() + turns.ready
    with ThreadPoolExecutor(sum(map(len, cases.values()))) as pool:
        list(pool.map(lambda case: case.first_calls(turns.losses - 1, end - time.monotonic()),
                      chain.from_iterable(cases.values())))
    done: list[dict[str, object]] = []
    for of_network in cases.values():
        for case in of_network:
            case.ask(turns.warm_up, 0, limit=60)
        for _ in range(turns.rounds):
            for case in of_network:
                case.turn(turns.calls)
            if turns.partial:
                rows = [*done, *({**case.row, "ms": case.times} for case in of_network)]
                turns.partial.write_text(json.dumps(rows, indent=1))
        for case in of_network:
            case.profile()
        for case in of_network:
            case.finish()
        if turns.kernels:
            _add_kernels(of_network, turns.kernels)
        done += [{**case.row, "ms": case.times} for case in of_network]
        yield of_network


def _add_kernels(cases: Sequence[NetworkCase], file: Path) -> None:
    """What the device did, and of tf_stitch which launches are what: build, launch, family, domain, predicted
    microseconds, bytes, some of the nodes."""
    known = json.loads(file.read_text()) if file.exists() else {}
    for case in cases:
        if case.kernels is not None:
            known[f"{case.row['network']}/{case.backend}"] = {**case.kernels, "launches": case.launches}
    file.write_text(json.dumps(known))


def _regions(report: Mapping[str, Any]) -> dict[str, object]:
    left_out: dict[str, int] = {}
    for graph in report["graphs"]:
        for reason, count in graph["left_out"].items():
            left_out[reason] = left_out.get(reason, 0) + count
    return {"regions": len(report["regions"]),
            "checked": len(report["profitability"]),
            "by_tensorflow": sum(entry["chosen"] == "fallback" for entry in report["profitability"]),
            "fallbacks": "; ".join(f"{f['count']} {f['reason']}" for f in report["fallbacks"]),
            "left_out": "; ".join(f"{count} {reason}" for reason, count in left_out.items())}
