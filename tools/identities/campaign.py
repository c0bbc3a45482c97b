"""Checks ops in a process of their own: some end it. It is forked before TensorFlow computes anything."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from tools.identities.check import NOT_RUN, check
from tools.identities.registered import registered


def _work(link: Connection, tries: int, wanted: int, seconds: float) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    ops = registered()
    while (asked := link.recv()) is not None:
        name, skip = asked
        link.send(check(ops[name], tries, wanted, seconds, skip, link.send))


def verdicts(names: Sequence[str], tries: int, wanted: int, seconds: float) -> Iterator[dict[str, Any]]:
    """What is found about each op. What ends the process, or hangs, is drawn no second time."""
    context = multiprocessing.get_context("fork")
    link, process = _started(context, tries, wanted, seconds)
    for name in names:
        skip: list[int] = []
        while True:
            link.send((name, skip))
            answer: Any = -1
            try:
                while isinstance(answer, int) and link.poll(20 * seconds + 40):
                    answer = link.recv()
                if not isinstance(answer, int):
                    yield asdict(answer) | {"status": answer.status, "crashes": len(skip)}
                    break
            except (EOFError, OSError):
                pass
            process.kill()
            process.join()
            link, process = _started(context, tries, wanted, seconds)
            skip.append(answer)
            if len(skip) == 4:
                yield {"op": name, "ran": 0, "status": NOT_RUN, "why_not": "ends the process", "unequal": "",
                       "miscounted": "", "shared": 0, "compared": 0, "crashes": 4}  # fmt: skip
                break
    link.send(None)
    process.join()


def _started(context: Any, *arguments: Any) -> tuple[Connection, Any]:
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return ours, process
