"""Networks under TensorFlow, XLA (jit_compile=True), tf_stitch and PyTorch (Inductor with CUDA graphs), interleaved.

Each backend runs a network in a process of its own. First calls, which are the processors' work, run side by side and
so take longer than they would alone; then one process works at a time, in turns. Prints CSV: medians of a call's
milliseconds over the turns with the least and the most, seconds of the first call, MiB that the framework's allocator
handed out on the GPU at most (from the start on, and in the last turn), and of tf_stitch how many regions there are,
how many of them the profitability check has decided on (the others may have been timed beside TensorFlow's nodes
meanwhile: then --warm_up is too low), how many TensorFlow's nodes run since, and what fell back. What is not ready when
--ready seconds are over is left out. What was measured so far is in --partial after every turn.

In a turn PyTorch's allocator need not count what replayed CUDA graphs use: Inductor has the peak from the start on.

    python -m tools.network_benchmark                                   # all of them on a GPU
    python -m tools.network_benchmark --networks=resnet50_infer,resnet50_train --ready=110 --rounds=3 --calls=10
                                                                     # about 150 seconds
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from absl import app, flags

from tools.benchmark.network_cases import CASES
from tools.benchmark.timed_case import TimedCase
from tools.benchmark.torch_worker import HAVE
from tools.benchmark.workers import BACKENDS, Worker

PEER = "inductor"
PROFILED = 4
"""Calls."""
FIELDS = ("network", "backend", "median_ms", "least_ms", "most_ms", "first_call_s", "peak_mib",
          "steady_peak_mib", "result", "regions", "checked", "by_tensorflow", "fallbacks", "left_out")

_NETWORKS = flags.DEFINE_list("networks", list(CASES), "of tools/benchmark/network_cases.py")
_BACKENDS = flags.DEFINE_list("backends", list(BACKENDS), "tf, xla, stitch, inductor")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "turns of each backend")
_CALLS = flags.DEFINE_integer("calls", 20, "calls of a turn")
_WARM_UP = flags.DEFINE_integer("warm_up", 60, "calls before the first turn: CUDA graphs are made; the check decides")
_READY = flags.DEFINE_float("ready", 300, "seconds for the first calls of all backends")
_SCOPE = flags.DEFINE_string("scope", "region", "what regions hold: TF_STITCH_SCOPE")
_PARTIAL = flags.DEFINE_string("partial", None, "JSON file for rows and times so far, should this be ended early")
_KERNELS = flags.DEFINE_string("kernels", None, "JSON file for what the device did in a call of each, in the end")
_TOGETHER = flags.DEFINE_integer("together", 2, "networks whose first calls run side by side")


class _Case(TimedCase):
    """A network on a backend."""

    def __init__(self, network: str, short: str) -> None:
        backend = PEER if short == PEER else BACKENDS[short]
        self.kernels: Mapping[str, Any] | None = None
        self.launches: list[Any] = []
        self._peak = 0.0
        # The first call waits for the kernels, as long as it takes.
        ours = {"TF_STITCH_SCOPE": _SCOPE.value, "TF_STITCH_FIRST_STEP_SECONDS": "600"}
        program, *arguments = ("torch_worker", network) if short == PEER else ("network_worker", network, backend)
        worker = Worker(program, *arguments, backend=backend, variables=ours if backend == "tf_stitch" else {})
        super().__init__(worker, network=network, backend=backend)

    def ask(self, *words: object, limit: float) -> Mapping[str, Any] | None:
        """As TimedCase's; the row has the memory that the answer tells."""
        answer = super().ask(*words, limit=limit)
        if answer is not None and "gpu_mib" in answer:
            self._peak = max(self._peak, answer["gpu_mib"])
            self.row["peak_mib"] = round(self._peak)
            if self.row["backend"] != PEER:
                self.row["steady_peak_mib"] = round(answer["gpu_mib"])
        return answer

    def finish(self) -> dict[str, object]:
        """The row; the process ends."""
        report = self.end()
        if report is not None:
            self.row |= _regions(report)
            self.launches = [[k["build"], k["launch"], k["rule"], k["domain"], k["predicted_us"], k["bytes"],
                              k["nodes"][-3:]] for k in report["kernels"]]
        return self.row


def measure(networks: Sequence[str]) -> list[dict[str, object]]:
    """A row for each network and backend; one that fails has its error in `median_ms`."""
    cases = [_Case(network, short) for network in networks for short in _BACKENDS.value
             if short != PEER or CASES[network].network in HAVE]  # fmt: skip
    end = time.monotonic() + _READY.value

    def first_call(case: _Case) -> None:
        answer = case.ask(1, 0, limit=end - time.monotonic())
        if answer is not None:
            case.row["first_call_s"] = round(answer["warm_up_s"], 1)

    with ThreadPoolExecutor(len(cases)) as pool:
        list(pool.map(first_call, cases))
    for case in cases:
        case.ask(_WARM_UP.value, 0, limit=60)
    for _ in range(_ROUNDS.value):
        for case in cases:
            answer = case.ask(3, _CALLS.value, limit=60)
            if answer is not None:
                case.times.append(answer["ms"])
                case.row["result"] = f"{answer['result']:.6g}"
        if _PARTIAL.value:
            Path(_PARTIAL.value).write_text(json.dumps([{**case.row, "ms": case.times} for case in cases], indent=1))
    if _KERNELS.value:
        for case in cases:
            if case.row["backend"] != PEER:
                case.kernels = case.ask(2, PROFILED, "profile", limit=60)
    rows = [case.finish() for case in cases]
    if _KERNELS.value:
        _add_kernels(cases, Path(_KERNELS.value))
    return rows


def _add_kernels(cases: Sequence[_Case], file: Path) -> None:
    """What the device did, and of tf_stitch which launches are what: build, launch, family, domain, predicted
    microseconds, bytes, some of the nodes."""
    known = json.loads(file.read_text()) if file.exists() else {}
    for case in cases:
        if case.kernels is None:
            continue
        known[f"{case.row['network']}/{case.row['backend']}"] = {**case.kernels, "launches": case.launches}
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


def main(_: Sequence[str]) -> None:
    writer = csv.DictWriter(sys.stdout, FIELDS)
    writer.writeheader()
    for first in range(0, len(_NETWORKS.value), _TOGETHER.value):
        writer.writerows(measure(_NETWORKS.value[first:first + _TOGETHER.value]))
        sys.stdout.flush()


if __name__ == "__main__":
    app.run(main)
