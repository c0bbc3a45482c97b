"""A program of TensorFlow's C API, without Python, loads and runs converted models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tf_stitch.convert.paths import GRAPH_FILE
from tf_stitch.convert.saved_model import parse, read_model
from tools.benchmark.conversion_host import build_loader, one_region, run_loader

SHORTER = 5
"""How much shorter a call is of a network of 150 variables that is one region: 24 us with its 25 kernels, before 570 to
700 (two cores of an EPYC with AVX-512)."""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_loader(tmp_path_factory.mktemp("loader"))


def run(program: Path, library: Path, model: Path, original: Path, x: np.ndarray, folder: Path, calls: int = 1
        ) -> tuple[np.ndarray, dict[str, float]]:
    """The first output of serving_default, and what the program counts."""
    signature = next(s for s in read_model(original).chosen([]) if s.name == "serving_default")
    output = next(v for v in signature.outputs if v.dtype == tf.float32)
    x.tofile(folder / "input")
    said = run_loader(program, library, model, calls, signature.inputs[0].tensor, x.shape, folder / "input",
                      output.tensor, folder / "output")
    return np.fromfile(folder / "output", np.float32), said


@pytest.mark.parametrize("name", ["keras", "simple_save", "tf_keras"])
def test_results_are_the_original_s(name: str, program: Path, op_library: Path, models: Callable[[str], Path],
                                    converted: Callable[[str], Path], tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32)
    expected, _ = run(program, op_library, models(name), models(name), x, tmp_path)
    found, said = run(program, op_library, converted(name), models(name), x, tmp_path)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert said["runs"] > 0
    assert said["fallbacks"] == 0


@pytest.mark.parametrize("name", ["keras", "simple_save"])
def test_signatures_and_their_order_are_the_original_s(name: str, models: Callable[[str], Path],
                                                       converted: Callable[[str], Path]) -> None:
    """Also of a model of TensorFlow 1, whose graph has no initialization before."""
    before, after = (list(parse(folder(name) / GRAPH_FILE).meta_graphs[0].signature_def)
                     for folder in (models, converted))
    assert after == before


def test_a_signature_that_is_one_region_costs_the_host_little(program: Path, op_library: Path, tmp_path: Path) -> None:
    one_region(tmp_path)
    original, converted = tmp_path / "original", tmp_path / "converted"
    x = np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)
    expected, before = run(program, op_library, original, original, x, tmp_path, calls=200)
    found, said = run(program, op_library, converted, original, x, tmp_path, calls=2000)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert said["runs"] == 2000  # one region
    assert said["us"] < before["us"] / SHORTER
