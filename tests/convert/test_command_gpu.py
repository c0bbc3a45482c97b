"""Converted models on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.convert.test_conversion import inputs
from tf_stitch.convert.command import OK, main
from tf_stitch.runtime.device_query import compute_capability

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]


@pytest.mark.parametrize("name", ["keras", "module", "simple_save"])
def test_results_are_the_original_s_on_a_gpu(name: str, models: Callable[[str], Path], tmp_path: Path,
                                             use: Callable[..., dict[str, Any]]) -> None:
    target = f"cuda:sm_{compute_capability(0)}"
    assert main([f"--input_dir={models(name)}", f"--output_dir={tmp_path / 'out'}", f"--target=cpu,{target}",
                 "--input_ranges=batch=3:4", "--nomeasure"]) == OK
    said = use(models(name), tmp_path / "out", **inputs(name, 3))
    assert max(said["worst"].values()) < 1e-3  # matmuls in TF32
    assert said["runs"] > 0
    assert said["fallbacks"] == 0


def test_ptx_serves_a_later_gpu(models: Callable[[str], Path], tmp_path: Path, use: Callable[..., dict[str, Any]]
                                ) -> None:
    earlier = "80" if int(compute_capability(0)) > 80 else "75"
    assert main([f"--input_dir={models('keras')}", f"--output_dir={tmp_path / 'out'}", f"--target=cuda:sm_{earlier}",
                 "--input_ranges=batch=3:4"]) == OK
    said = use(models("keras"), tmp_path / "out", x=np.ones((3, 16), np.float32))
    assert max(said["worst"].values()) < 1e-3
    assert said["runs"] > 0


def test_verify_only_runs_on_the_gpu(models: Callable[[str], Path], tmp_path: Path) -> None:
    target = f"cuda:sm_{compute_capability(0)}"
    assert main([f"--input_dir={models('keras')}", f"--output_dir={tmp_path / 'out'}", f"--target={target}"]) == OK
    assert main([f"--verify_only={tmp_path / 'out'}"]) == OK
