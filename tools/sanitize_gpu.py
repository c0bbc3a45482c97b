"""Runs the tests of kernels on a GPU (tests/differential/test_gpu.py, through CuPy) under compute-sanitizer's memcheck,
racecheck and synccheck, side by side. Every buffer is an allocation of its own, so that memcheck knows its end.

    python -m tools.sanitize_gpu
    python -m tools.sanitize_gpu --suite=shared_blocks    # random kernels in partitioned blocks (HFuse), about a minute
    python -m tools.sanitize_gpu --suite=matmuls          # of warpgroups and of pairs of blocks

Writes h200_sanitizer.json.gz, sanitizer_shared_blocks.json.gz or sanitizer_matmuls.json.gz to benchmarks/raw: errors by
tool, tests that ran, tests left out. The logs go to --logs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.benchmark.machine import describe_cuda, module_path
from tools.benchmark.raw_rows import raw_rows, write_rows

ROOT = Path(__file__).resolve().parents[1]


TOOLS = {"memcheck": ["--padding", "4096", "--report-api-errors", "no"], "racecheck": [], "synccheck": []}
_RANGES = "tests/differential/test_gpu_thread_ranges.py::test_random"
SUITES = {
    "kernels": ["tests/differential/test_gpu.py"],
    "shared_blocks": [*(f"{_RANGES}_pairs[{i}]" for i in range(8)),
                      *(f"{_RANGES}_sets_of_three[{i}]" for i in range(100, 103))],
    "matmuls": [f"tests/differential/test_gpu.py::test_matmul_{name}"
                for name in ("of_pairs", "by_every_tile", "by_every_tile_of_warpgroups")],
}
"""Tests by the name of a suite."""
RAW = {"kernels": "h200_sanitizer", "shared_blocks": "sanitizer_shared_blocks", "matmuls": "sanitizer_matmuls"}
LEFT_OUT = ("64x500000", "64x200000", "300x100000", "4096x768x1152")
"""Shapes of tests: so many elements take too long; the same kernels run on fewer."""
ERRORS = re.compile(r"^=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) error)", re.M)
TESTS = re.compile(r"^=*\s*(\d+ (?:passed|failed|error|skipped|deselected)[^=\n]*?) in ", re.M)


def check(tool: str, suite: str, seconds: float, logs: Path) -> dict[str, Any]:
    """What a tool found; `errors` is None if it did not end, and `said` has the last lines then."""
    log, begin = logs / f"{tool}.txt", time.monotonic()
    # Of our kernels alone: CuPy's are not ours to check.
    sanitizer = ["compute-sanitizer", "--tool", tool, "--kernel-name", "kernel_substring=launch_", "--log-file",
                 str(log)]  # fmt: skip
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", "-k",
             " and ".join(f"not {shape}" for shape in LEFT_OUT), *SUITES[suite]]  # fmt: skip
    environment = os.environ | {"TEST_REDZONE": "0", "PYTHONPATH": module_path(ROOT)}
    try:
        done = subprocess.run([*sanitizer, *TOOLS[tool], *tests], cwd=ROOT, env=environment, timeout=seconds,
                              capture_output=True, text=True, check=False)  # fmt: skip
        said = done.stdout + done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    (logs / f"{tool}_tests.txt").write_text(said)
    return {"seconds": round(time.monotonic() - begin), **found(log.read_text() if log.exists() else "", said)}


def found(log: str, said: str) -> dict[str, Any]:
    """Errors by the sanitizer's last line, and tests by pytest's."""
    errors, tests = ERRORS.findall(log), TESTS.findall(said)
    result: dict[str, Any] = {"errors": int("".join(errors[-1])) if errors else None,
                              "tests": tests[-1] if tests else None}  # fmt: skip
    if not errors or not tests or "failed" in tests[-1]:
        result["said"] = (log + said).splitlines()[-12:]
    return result


def verdict(results: Mapping[str, Mapping[str, Any]]) -> str:
    """One line: errors of each tool, and what became of the tests where not all passed."""
    def of(tool: str, r: Mapping[str, Any]) -> str:
        ended = "did not end" if r["errors"] is None else f"{r['errors']} errors"
        return f"{tool} {ended}" + (f" ({r['tests'] or 'no tests'})" if "said" in r else "")

    return ", ".join(of(tool, r) for tool, r in results.items())


def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--tools", nargs="+", choices=list(TOOLS), default=list(TOOLS))
    flags.add_argument("--suite", choices=list(SUITES), default="kernels", help="which tests")
    flags.add_argument("--seconds", type=float, default=230, help="limit of each")
    flags.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()) / "tf_stitch_sanitizer")
    flags.add_argument("--out", type=Path, help="by default in benchmarks/raw")
    args = flags.parse_args()
    args.logs.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(len(args.tools)) as pool:
        done = pool.map(lambda tool: check(tool, args.suite, args.seconds, args.logs), args.tools)
        results = dict(zip(args.tools, done, strict=True))
    document = {"command": f"python -m tools.sanitize_gpu --suite={args.suite}",
                "what": "Kernel tests under compute-sanitizer",
                "result": verdict(results),
                "machine": describe_cuda(),
                "left_out": [f"tests of {shape}" for shape in LEFT_OUT], **results}  # fmt: skip
    write_rows(args.out or raw_rows(RAW[args.suite]), document)
    print(json.dumps(document, indent=1))
    return 0 if all(r["errors"] == 0 and "said" not in r for r in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
