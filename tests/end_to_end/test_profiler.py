"""TensorFlow's profiler shows the kernels of a region by the user's names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tensorflow as tf

from tests.end_to_end.conftest import PROGRAMS, Runner

PROGRAM = PROGRAMS / "profiled.py"
CALL = "head/project:StitchCall"


def _names(run: Runner, folder: Path, **variables: str) -> dict[str, list[str]]:
    done = run(PROGRAM, folder, TF_STITCH_GUARD="0", **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.report is not None
    assert sum(build["cached"] for build in done.report["builds"]) == 1, "the second layer has the first one's kernels"
    names: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return names


def _kernels(names: list[str]) -> set[str]:
    """Scopes of kernels around the softmax."""
    return {name.partition("/")[0] for name in names if "/weights" in name and name.endswith(":StitchKernel")}


def test_kernels_have_the_users_names(forked: Runner, tmp_path: Path) -> None:
    names = _names(forked, tmp_path, CUDA_VISIBLE_DEVICES="-1")["/host:CPU"]
    assert _kernels(names) == {"first", "second"}
    assert CALL in names


@pytest.mark.gpu
@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")
def test_so_do_kernels_on_a_gpu(run: Runner, tmp_path: Path) -> None:
    found = _names(run, tmp_path)
    device = [name for plane, names in found.items() if plane.startswith("/device:GPU") for name in names]
    assert _kernels(device) == {"first", "second"}, "what CUPTI saw was launched under these names"
