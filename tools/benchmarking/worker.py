"""A process with one case on one backend. `worker.py CASE BACKEND` reads "run N" lines and answers each with JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarking.cases import CASES


def main(case: str, backend: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what TensorFlow prints is no answer
    step = CASES[case](backend)
    for line in sys.stdin:
        seconds, losses = [], []
        for _ in range(int(line.split()[1])):
            start = time.perf_counter()
            losses.append(step())
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "losses": losses}), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
