"""Checkouts of commits, what is timed of each, and the table of both."""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

Times = dict[str, float]
"""Of one turn: what was measured, with its unit -> how long it took."""
_WAITS = {"TF_STITCH_FIRST_STEP_SECONDS": "3000", "TF_STITCH_ASYNC": "0"}
"""The first call waits for its kernels."""
_BUILD = ("from pathlib import Path; from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library\n"
          "print(*(build_library(library, Path({!r})) for library in (STITCH_OP, GRAPH_HOOK)))")


class Checkout:
    """The package and its tools in a folder.

    It has an environment of its own: an editable installation would lend a checkout the modules that it lacks.

    Args:
        cache: gets `native`, the libraries of all checkouts, and the environment.
    """

    def __init__(self, folder: Path, cache: Path) -> None:
        self._folder, self._cache = folder.resolve(), cache
        self._python = make_environment(cache / "environment")
        self.run("-c", _BUILD.format(str(cache)))

    def run(self, *command: str, stdin: str = "", **variables: str) -> str:
        """What a Python with the packages of this process' prints, with the checkout's modules.

        Raises:
            RuntimeError: it fails; the message is the end of what it says.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_STITCH")}
        environment |= {"PYTHONPATH": str(self._folder), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1",
                        "TF_STITCH_CACHE": str(self._cache), **variables}
        done = subprocess.run([self._python, *command], cwd=self._folder, env=environment, text=True, input=stdin,
                              capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self._folder}: {' '.join(command)}: {done.stderr[-2000:]}")
        return done.stdout

    def planning(self, nodes: Sequence[str], kinds: Sequence[str]) -> Times:
        """The planner alone, with made-up times of patterns."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "planning.json")
            self.run("-m", "tools.planning_benchmark", f"--sizes={','.join(nodes)}", f"--kinds={','.join(kinds)}",
                     "--times=made-up", f"--graphs={folder}", f"--out={out}")
            rows = json.loads(out.read_text())["results"]
        return {f"planning {row['graph']} ({row['times']}), processor s": row["processor_seconds"] for row in rows}

    def first_call(self, workload: str) -> Times:
        """Of a train step in a new process."""
        with self._cold_cache() as cache, _processor_seconds() as used:
            said = self.run("-m", "tf_stitch", *self._worker(), workload, "train", "tf_stitch", stdin="0 1\n",
                            TF_STITCH="1", TF_STITCH_CACHE=str(cache), **self._variables())
        seconds = json.loads(said.splitlines()[-1])["seconds"]
        return {f"first call, {workload} train, s": seconds, f"process of it, {workload}, processor s": used[0]}

    def steps(self, model: str, steps: int) -> Times:
        """Milliseconds of a step in each of its modes; what the profitability check found is in the cache."""
        module = f"models.{model.replace('-', '_')}"
        said = self.run("-m", "tf_stitch", "-m", module, "--steps", str(steps), TF_STITCH="1", **self._waits())
        return {f"{model} {mode}, ms": float(ms) for mode, ms in re.findall(r"^(\w+) ([\d.]+) ms per step", said, re.M)}

    def _worker(self) -> list[str]:
        """Its name in older checkouts, too, whose tools are files beside their modules."""
        script = self._folder / "tools" / "benchmarking" / "region_worker.py"
        return [str(script)] if script.exists() else ["-m", "tools.benchmark.region_worker"]

    def _variables(self) -> Mapping[str, str]:
        folders = [self._folder, self._folder / "models" / "scripts"]
        return self._waits() | {"PYTHONPATH": os.pathsep.join(map(str, folders))}

    def _waits(self) -> dict[str, str]:
        known = (self._folder / "tf_stitch" / "config.py").read_text()
        return {name: value for name, value in _WAITS.items() if name in known}  # it refuses others

    @contextmanager
    def _cold_cache(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(self._cache / "native", Path(folder, "native"))
            yield Path(folder)


def make_environment(folder: Path) -> Path:
    """The Python of a new virtual environment with the packages of this one, but for what .pth files do."""
    venv.create(folder, symlinks=True)
    there = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    Path(there, "packages.pth").write_text(f"{Path(np.__file__).parents[1]}\n")
    return folder / "bin" / "python"


@contextmanager
def _processor_seconds() -> Iterator[list[float]]:
    """Of processes that start and end inside, and theirs: the list gets one number at the end."""
    found: list[float] = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield found
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def compare(checkouts: Mapping[str, Checkout], rounds: int, measures: Sequence[Callable[[Checkout], Times]]
            ) -> dict[str, dict[str, list[float]]]:
    """What was measured -> checkout -> times of all rounds. Who comes first changes from round to round."""
    found: dict[str, dict[str, list[float]]] = {}
    for number, measure in itertools.product(range(rounds), measures):
        for name in sorted(checkouts, reverse=bool(number % 2)):
            for what, value in measure(checkouts[name]).items():
                found.setdefault(what, {}).setdefault(name, []).append(value)
                print(f"round {number + 1} of {rounds}, {name}: {what} {value:.4g}", file=sys.stderr, flush=True)
    return found


def table(found: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Medians, and the ratios of the rounds: a ratio below 1 is of a faster `after`."""
    lines = ["| | before | after | after / before | least | most |", "| --- | --- | --- | --- | --- | --- |"]
    for what, times in found.items():
        before, after = times["before"], times["after"]
        ratios = [b / a for a, b in zip(before, after, strict=True)]
        lines.append(f"| {what} | {statistics.median(before):.4g} | {statistics.median(after):.4g} | "
                     f"{statistics.median(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} |")
    return "\n".join(lines)
