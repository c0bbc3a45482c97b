"""Calls of functions whose kernels take next to no time."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner

PROGRAM = PROGRAMS / "function_calls.py"


@pytest.fixture(scope="module")
def plain(forked: Runner) -> dict[str, Any]:
    results: dict[str, Any] = json.loads(forked(PROGRAM, stitch="").stdout)
    return results


@pytest.mark.parametrize("short", [True, False])
def test_a_region_alone_runs_in_the_callers_thread(forked: Runner, plain: dict[str, Any], short: bool) -> None:
    done = forked(PROGRAM, stitch="strict", TF_STITCH_GUARD="0", TF_STITCH_CALLS=str(int(short)))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.report is not None
    assert done.report["regions"][0]["runs"] >= 400
    found = json.loads(done.stdout)
    assert found["share"] < 0.02 if short else found["share"] > 0.05
    np.testing.assert_allclose(found["result"], plain["result"], rtol=1e-5)
    np.testing.assert_allclose(found["restored"], plain["restored"], rtol=1e-5)
    assert not found["mentioned"], "a saved model needs an executor that only this process has"


def test_an_interrupt_during_a_build(forked: Runner, cache: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "bin" / "gcc"
    compiler.parent.mkdir()
    process = '"$(cut -d" " -f4 /proc/$PPID/stat)"'  # the parent of the shell that ends the compiler with the process
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *kernel.c*) kill -INT {process}; sleep 1;; esac\n'
                        f'exec {shutil.which("gcc")} "$@"\n')
    compiler.chmod(0o755)
    done = forked(PROGRAMS / "interrupted_build.py", TF_STITCH_CACHE=str(cache), CUDA_VISIBLE_DEVICES="-1",
                  PATH=f"{compiler.parent}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {"interrupted": True, "result": pytest.approx(8.0)}
    assert done.reasons() == "", "the build came to its end"
    assert done.stitched("step") > 0
