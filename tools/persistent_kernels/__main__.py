"""Persistent kernels against a launch for each step, on an NVIDIA GPU of compute capability 9.0: two LSTM layers and a
decoder's word, written by hand (recurrent.cu, decoder.cu). Every variant is compared with float64; those that are right
are timed in turns. Needs nvcc and CuPy.

    python -m tools.persistent_kernels --folder=/tmp/persistent      for programs and what they read
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.benchmark.machine import describe_cuda
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, write_rows
from tools.persistent_kernels import decoder, recurrent
from tools.persistent_kernels.page import page
from tools.persistent_kernels.programs import Program, build

AT_A_TIME = 4
"""Variants that are checked side by side."""

Row = dict[str, Any]


def _rows(program: Program, error_of: Callable[[str], float | None], tolerance: dict[str, float],
          parts: Sequence[str], seconds: float) -> list[Row]:  # fmt: skip
    """A row for each variant that is right, with its times and what its first block spent them on."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        errors = dict(zip(program.variants, pool.map(error_of, program.variants), strict=True))
    right = []
    for variant, error in errors.items():
        good = error is not None and error < tolerance[variant.partition(":")[0]]
        right += [variant] if good else []
        print(f"{variant:28} error {error}{'' if good else ': left out'}", flush=True)
    rows = []
    for name, median, low, high, begin, *cycles in program.timed(right, seconds):
        rows.append({"variant": name, "us": float(median), "quartiles": [float(low), float(high)],
                     "launch_us": float(begin), "error": errors[name],
                     "cycles": dict(zip(parts, map(float, cycles), strict=True))})  # fmt: skip
        print(f"{name:28} {median:>8} ({low} to {high}), launch {begin}:", *cycles, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for programs and what they read")
    parser.add_argument("--out", type=Path, default=raw_rows("persistent_kernels"))
    given = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        of_recurrent = pool.submit(build, "recurrent", given.folder / "recurrent")
        of_decoder = pool.submit(build, "decoder", given.folder / "decoder")
        document: dict[str, Any] = {"machine": describe_cuda(), "command": command_line(sys.argv)}
        first = of_recurrent.result()
        states = recurrent.draw(first.folder)
        document["recurrent"] = _rows(first, lambda variant: recurrent.error_of(first, variant, states),
                                      recurrent.TOLERANCE, recurrent.PARTS, 30)  # fmt: skip
        second = of_decoder.result()
        model = decoder.draw(second.folder)
        logits: dict[str, decoder.Array] = {}
        document["decoder"] = _rows(second, lambda variant: decoder.error_of(second, variant, model, logits),
                                    decoder.TOLERANCE, decoder.PARTS, 60)  # fmt: skip
    write_rows(given.out, document)
    page_of(given.out).write_text(page(document))


if __name__ == "__main__":
    main()
