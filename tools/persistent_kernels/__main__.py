"""Persistent kernels against a launch for each step, on an NVIDIA GPU with clusters: two LSTM layers, and a decoder's
word, written by hand (recurrent.cu, decoder.cu). Every variant is compared with float64, then all that are right are
timed in turns.

    python -m tools.persistent_kernels --folder=DIR --out=FILE.json
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from tools.persistent_kernels import decoder, recurrent
from tools.persistent_kernels.programs import Program, build

WHERE = ("attends", "other")
SIDE_BY_SIDE = 4
"""Variants that are checked at a time."""


def _rows(program: Program, check: Any, parts: list[str], seconds: float) -> list[dict[str, Any]]:
    variants = program.variants
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        right = [variant for variant, good in zip(variants, pool.map(check, variants), strict=True) if good]
    print("wrong:", *(variant for variant in variants if variant not in right), flush=True)
    rows = []
    for name, median, low, high, *cycles in program.timed(right, seconds):
        rows.append({"variant": name, "us": float(median), "low": float(low), "high": float(high),
                     "cycles": dict(zip(parts, map(float, cycles), strict=True))})  # fmt: skip
        print(f"{name:28} {median:>8} ({low} to {high})", *cycles, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for programs and what they read")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        of_recurrent = pool.submit(build, "recurrent", given.folder / "recurrent")
        of_decoder = pool.submit(build, "decoder", given.folder / "decoder")
        program = of_recurrent.result()
        wanted = recurrent.draw(program.folder)
        rows = {"recurrent": _rows(program, lambda v: recurrent.check(program, v, wanted), list(recurrent.PARTS), 30)}
        given.out.write_text(json.dumps(rows, indent=1) + "\n")
        program = of_decoder.result()
        model = decoder.draw(program.folder)
        check = partial(decoder.check, program, model=model, wanted={})
        parts = [f"{where} {kind} {part}" for where, kind, part in product(WHERE, decoder.KINDS, decoder.PARTS)]
        rows["decoder"] = _rows(program, check, parts, 60)
        given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
