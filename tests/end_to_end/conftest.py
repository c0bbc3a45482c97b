"""Runs programs in processes of their own, activated as an installed tf_stitch activates them: by one line at start."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.fork_server import ForkServer
from tests.support.plain_results import OUT, plain_result
from tests.support.start import python_path
from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library
from tools.benchmark.machine import module_path

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
SMALL = PROGRAMS / "small.py"
SCRIPTS = ROOT / "models" / "scripts"
PRECISE = {"NVIDIA_TF32_OVERRIDE": "0", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
"""Where there is a GPU: matmuls as exact as a CPU's, and memory for those who run beside."""


@dataclass(frozen=True)
class Run:
    """A finished program. `report` is None if it wrote none."""

    returncode: int
    stdout: str
    stderr: str
    report: dict[str, Any] | None

    def said(self) -> str:
        """What tf_stitch said on stderr."""
        return "\n".join(line for line in self.stderr.splitlines() if "[tf_stitch]" in line)

    def stitched(self, name: str) -> int:
        """Stitched nodes of the graphs whose name has `name` in it."""
        assert self.report is not None, self.stderr[-3000:]
        return sum(g["stitched_nodes"] for g in self.report["graphs"] if name in g["graph"])

    def reasons(self) -> str:
        """Why TensorFlow's own ops ran, all in one text."""
        assert self.report is not None, self.stderr[-3000:]
        return "; ".join(f["reason"] for f in self.report["fallbacks"])


Runner = Callable[..., Run]
Plain = Callable[..., bytes]


@pytest.fixture(scope="session")
def start_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH whose sitecustomize does what the installed .pth file does."""
    module = ast.parse((ROOT / "setup.py").read_text())
    [line] = [node.value for node in module.body
              if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PTH_LINE"]  # fmt: skip
    folder = tmp_path_factory.mktemp("start")
    (folder / "sitecustomize.py").write_text(ast.literal_eval(line))
    return folder


@pytest.fixture(scope="session")
def native_folder() -> Path:
    """The folder of the native libraries, built."""
    paths = [build_library(library, load_config().cache_dir) for library in (STITCH_OP, GRAPH_HOOK)]
    return paths[0].parent


@pytest.fixture
def cache(tmp_path: Path, native_folder: Path) -> Path:
    """A cache folder that holds the native libraries and no kernels."""
    shutil.copytree(native_folder, tmp_path / "cache" / "native")
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def run(start_folder: Path, native_folder: Path, tmp_path_factory: pytest.TempPathFactory,
        pytestconfig: pytest.Config) -> Runner:
    """run(program, *arguments, stitch="1", **variables): stitch="" runs plain TensorFlow. A process started anew."""

    def execute(command: list[str], environment: dict[str, str], folder: Path) -> tuple[int, str, str]:
        environment = environment | {"PYTHONPATH": python_path(environment["PYTHONPATH"])}
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=280, env=environment)
        return done.returncode, done.stdout, done.stderr

    return _runner(start_folder, tmp_path_factory, execute, pytestconfig.getoption("--form"))


@pytest.fixture(scope="session")
def forked(start_folder: Path, native_folder: Path, fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory,
           pytestconfig: pytest.Config) -> Runner:
    """As `run`, forked off a process that has imported TensorFlow: for programs whose results are what matters."""

    def execute(command: list[str], environment: dict[str, str], folder: Path) -> tuple[int, str, str]:
        assert fork_server.can_run(environment)
        returncode = fork_server.run(command, environment, folder, timeout=280)
        return returncode, (folder / "stdout").read_text(), (folder / "stderr").read_text()

    return _runner(start_folder, tmp_path_factory, execute, pytestconfig.getoption("--form"))


@pytest.fixture(scope="session")
def tensorflow(forked: Runner, tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """tensorflow(program, *arguments, **variables): what a program says on stdout in plain TensorFlow, or writes to the
    file that is its argument OUT. Kept for later runs."""

    def run_program(program: Path, *arguments: object, **variables: str) -> bytes:
        def run() -> bytes:
            out = tmp_path_factory.mktemp("plain") / "out.npz"
            done = forked(program, *(out if each == OUT else each for each in arguments), stitch="", **variables)
            assert done.returncode == 0, done.stderr[-3000:]
            return out.read_bytes() if OUT in arguments else done.stdout.encode()

        return plain_result(program, arguments, variables, run)

    return run_program


def _environment(start_folder: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("TF_STITCH") or name == "TF_STITCH_CACHE"}  # native_folder is there
    return environment | {"PYTHONPATH": f"{start_folder}:{module_path(ROOT)}", "TF_CPP_MIN_LOG_LEVEL": "2",
                          "TF_STITCH_ASYNC": "0", "TF_STITCH_FIRST_STEP_SECONDS": "3000"}  # however busy it is


def _runner(start_folder: Path, tmp_path_factory: pytest.TempPathFactory,
            execute: Callable[[list[str], dict[str, str], Path], tuple[int, str, str]], form: str | None) -> Runner:
    """Args:
        form: of tools.forced_forms, that stitched programs run in.
    """
    def run_program(program: Path, *arguments: object, stitch: str = "1", **variables: str) -> Run:
        folder = tmp_path_factory.mktemp("report")
        environment, forced = _environment(start_folder), []
        if stitch:
            environment |= {"TF_STITCH": stitch, "TF_STITCH_REPORT": str(folder)}
            forced = ["-m", "tools.forced_forms", form] if form else []
        done = execute([*forced, str(program), *map(str, arguments)], environment | variables, folder)
        path = folder / "report.json"
        return Run(*done, json.loads(path.read_text()) if path.exists() else None)

    return run_program


@pytest.fixture(scope="session")
def expected(tensorflow: Plain) -> list[float]:
    """What small.py prints in plain TensorFlow."""
    values: list[float] = json.loads(tensorflow(SMALL))
    return values


def check(done: Run, expected: list[float]) -> None:
    """The program came to its end, with the numbers of plain TensorFlow."""
    assert done.returncode == 0, done.stderr[-3000:]
    np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=1e-5, atol=1e-7)
