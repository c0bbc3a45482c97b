"""A soak of a converted model: clients, shapes at random, reloads, and one client that sends nonsense.

    python -m tools.soak --original=model --converted=converted --minutes=60 --out=benchmarks/soak.md

The op library is beside the converted model (`convert --copy_library`), or named by --library. Each answer is compared
with the original's. Prints a table; ends with 1 if an answer was wrong, a client met an error that is not its own, or
memory grew.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import gc
import os
import random
import statistics
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tf_stitch.convert.folder import LIBRARY

SIGNATURE = "serving_default"
ATOL = 1e-4
"""Of outputs, which have to be floats of about 1."""
GROWTH = 40 << 20
"""Bytes that the process may grow by after its first third: what allocators and TensorFlow keep differs by some."""


@dataclass
class Counts:
    """
    Attributes:
        wrong: answers that differ from the original's; errors: of clients that sent what is right.
        refused: errors of the client that sends nonsense; accepted: its calls that met none.
        has: (seconds, bytes, descriptors, maps) after each reload.
    """

    calls: int = 0
    wrong: int = 0
    errors: list[str] = field(default_factory=list)
    refused: int = 0
    accepted: int = 0
    reloads: int = 0
    has: list[tuple[float, int, int, int]] = field(default_factory=list)


class Soak:
    """
    Args:
        sizes: of the first dimension, of which clients take one at random.
    """

    def __init__(self, original: Path, converted: Path, sizes: list[int]) -> None:
        self._path, self._original = str(converted), tf.saved_model.load(str(original))
        spec = self._original.signatures[SIGNATURE].structured_input_signature[1]
        self._specs = {name: (one.shape.as_list(), one.dtype.as_numpy_dtype) for name, one in spec.items()}
        self._cases = {size: self._case(size) for size in sizes}
        self._expected = {size: self._call(self._original, case) for size, case in self._cases.items()}
        self._model = tf.saved_model.load(self._path)
        self._lock, self._end = threading.Lock(), threading.Event()
        self.counts = Counts()

    def run(self, seconds: float, clients: int, every: float) -> None:
        """Clients for so long; a reload each `every` seconds."""
        start = time.monotonic()
        threads = [threading.Thread(target=self._client, args=(random.Random(i),)) for i in range(clients)]
        threads.append(threading.Thread(target=self._send_nonsense))
        for thread in threads:
            thread.start()
        while time.monotonic() - start < seconds:
            time.sleep(every)
            self._model = tf.saved_model.load(self._path)
            self.counts.reloads += 1
            gc.collect()
            self.counts.has.append((time.monotonic() - start, *_has()))
        self._end.set()
        for thread in threads:
            thread.join()

    def _case(self, size: int) -> dict[str, Any]:
        generator = np.random.default_rng(size)
        made = {}
        for name, (dims, dtype) in self._specs.items():
            shape = [size if d is None and i == 0 else 1 if d is None else d for i, d in enumerate(dims)]
            floats = np.issubdtype(dtype, np.floating)
            made[name] = (generator.standard_normal(shape) if floats else generator.integers(0, 2, shape)).astype(dtype)
        return made

    def _call(self, model: Any, case: dict[str, Any]) -> dict[str, Any]:
        found = model.signatures[SIGNATURE](**{name: tf.constant(value) for name, value in case.items()})
        return {name: value.numpy() for name, value in found.items()}

    def _client(self, chance: random.Random) -> None:
        while not self._end.is_set():
            size = chance.choice(list(self._cases))
            try:
                found = self._call(self._model, self._cases[size])
            except Exception as error:  # of any kind: it is what the soak looks for
                with self._lock:
                    self.counts.errors.append(f"{type(error).__name__}: {error}"[:500])
                continue
            right = all(np.allclose(found[name], value, atol=ATOL) for name, value in self._expected[size].items())
            with self._lock:
                self.counts.calls += 1
                self.counts.wrong += not right

    def _send_nonsense(self) -> None:
        chance = random.Random(-1)
        while not self._end.is_set():
            case = dict(self._cases[chance.choice(list(self._cases))])
            name = chance.choice(list(case))
            kind = chance.randrange(4)
            case[name] = [case[name][..., :1, None], case[name].astype(np.complex64), np.zeros((0,), np.float64),
                          np.array(["nonsense"])][kind]
            try:
                self._call(self._model, case)
                self.counts.accepted += 1
            except (tf.errors.OpError, TypeError, ValueError):
                self.counts.refused += 1
            time.sleep(0.01)


def _has() -> tuple[int, int, int]:
    """Resident bytes, descriptors and maps of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    maps = Path("/proc/self/maps").read_text().count("\n")
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd")), maps


def report(counts: Counts, seconds: float, fallbacks: int, runs: int) -> list[str]:
    """Lines of the page."""
    third = counts.has[len(counts.has) // 3:]
    rows = [("calls", f"{counts.calls:,} ({counts.calls / seconds:.0f} a second)"), ("wrong answers", counts.wrong),
            ("errors", len(counts.errors)), ("nonsense: refused, answered", f"{counts.refused:,}, {counts.accepted:,}"),
            ("reloads", counts.reloads), ("regions run by kernels, by own nodes", f"{runs:,}, {fallbacks:,}")]
    for place, name, unit in ((1, "MB", 1e6), (2, "descriptors", 1), (3, "maps", 1)):
        values = [one[place] / unit for one in third]
        rows.append((f"{name} after a third, at the end (median of its last reloads)",
                     f"{values[0]:.0f}, {statistics.median(values[-5:]):.0f}"))
    return ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]


def grew(counts: Counts) -> bool:
    """Whether memory, descriptors or maps grew after the first third."""
    third = counts.has[len(counts.has) // 3:]
    last = [statistics.median(one[i] for one in third[-5:]) for i in range(1, 4)]
    return last[0] - third[0][1] > GROWTH or last[1] > third[0][2] + 5 or last[2] > third[0][3] + 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--original", type=Path, required=True)
    parser.add_argument("--converted", type=Path, required=True)
    parser.add_argument("--library", type=Path, help="the op library, if it is not beside the converted model")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--reload", type=float, default=20.0, help="seconds from one reload to the next")
    parser.add_argument("--sizes", default="1,2,3,4,5,8,16,33", help="of the first dimension")
    parser.add_argument("--out", type=Path, help="a page")
    args = parser.parse_args()
    library = args.library or args.converted / LIBRARY
    tf.load_op_library(str(library))
    soak = Soak(args.original, args.converted, [int(size) for size in args.sizes.split(",")])
    soak.run(60 * args.minutes, args.clients, args.reload)
    stat = ctypes.CDLL(str(library)).tfs_stat
    stat.restype = ctypes.c_int64
    lines = report(soak.counts, 60 * args.minutes, stat(3), stat(0))
    print(*lines, *soak.counts.errors[:5], sep="\n")
    if args.out is not None:
        from tools.benchmark.raw_rows import command_line

        said = f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}: `{command_line(sys.argv)}`."
        args.out.write_text("\n".join(["# A soak of a converted model", "", said, "", *lines]) + "\n")
    return int(bool(soak.counts.wrong or soak.counts.errors or grew(soak.counts)))


if __name__ == "__main__":
    sys.exit(main())
