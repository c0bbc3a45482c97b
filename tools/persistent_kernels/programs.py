"""CUDA programs that check and time variants of themselves: they are built, and each variant runs under a limit of
seconds, so that one which waits for ever takes nobody else's time."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
SECONDS = 40.0


@dataclass(frozen=True)
class Program:
    """An executable, and the folder from which it reads what it computes with."""

    path: Path
    folder: Path

    @property
    def variants(self) -> list[str]:
        """What it can run."""
        return subprocess.run([self.path], capture_output=True, text=True, check=True).stdout.split()

    def run(self, task: str, variants: Sequence[str], seconds: float = SECONDS) -> str | None:
        """What it prints; None, and a line that says why, if it fails or takes too long."""
        command = [str(self.path), str(self.folder), task, *variants]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            print(f"{task} {' '.join(variants)}: more than {seconds:.0f} s", flush=True)
            return None
        if done.returncode:
            print(f"{task} {' '.join(variants)}: {done.returncode} {done.stdout} {done.stderr}", flush=True)
            return None
        return done.stdout

    def timed(self, variants: Sequence[str], seconds: float) -> list[list[str]]:
        """A row for each variant, timed in turns with the others."""
        found = self.run("time", variants, seconds) if variants else None
        return [line.split(",") for line in (found or "").splitlines()]


def build(name: str, folder: Path) -> Program:
    """Compiles `name`.cu for Hopper, unless `folder` has its program."""
    folder.mkdir(parents=True, exist_ok=True)
    source = HERE / f"{name}.cu"
    sources = b"".join(path.read_bytes() for path in sorted(HERE.glob("*.cu*")))
    path = folder / f"{name}_{hashlib.sha256(sources).hexdigest()[:8]}"
    if path.exists():
        return Program(path, folder)
    subprocess.run(["nvcc", "-std=c++20", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "--threads=4",
                    str(source), "-o", str(path)], check=True)  # fmt: skip
    return Program(path, folder)


def write(folder: Path, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """Files that the programs read."""
    for name, array in arrays.items():
        np.ascontiguousarray(array, np.float32).tofile(folder / f"{name}.bin")


def relative_error(found: NDArray[np.float32], wanted: NDArray[np.float64]) -> float:
    """The largest difference over the root mean square of what is right; infinite where nothing was written."""
    difference = np.abs(found.astype(np.float64) - wanted).max() / np.sqrt(np.mean(wanted**2))
    return float(difference) if np.isfinite(difference) else float("inf")
