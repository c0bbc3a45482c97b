"""A program of TensorFlow's C API, without Python, loads and runs converted models."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_stitch.convert.command import OK, main
from tf_stitch.convert.saved_model import read_model

HERE = Path(__file__).parent
SHORTER = 5
"""How much shorter a call is of a network of 150 variables that is one region: 50 us with its 25 kernels, before 1078
(two cores of an EPYC with AVX2)."""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """load_model.cc, built against the installed TensorFlow."""
    made = tmp_path_factory.mktemp("loader") / "load_model"
    folder = tf.sysconfig.get_lib()
    subprocess.run(["g++", "-std=c++17", "-O2", f"-I{tf.sysconfig.get_include()}", str(HERE / "load_model.cc"), "-o",
                    str(made), f"{folder}/libtensorflow_cc.so.2", f"{folder}/libtensorflow_framework.so.2",
                    f"-Wl,-rpath,{folder}", "-ldl"], check=True)
    return made


def run(program: Path, library: Path, model: Path, original: Path, x: np.ndarray, folder: Path, calls: int = 1
        ) -> tuple[np.ndarray, dict[str, float]]:
    """The first output of serving_default, and what the program counts."""
    signature = next(s for s in read_model(original).chosen([]) if s.name == "serving_default")
    output = next(v for v in signature.outputs if v.dtype == tf.float32)
    x.tofile(folder / "input")
    done = subprocess.run([program, library, model, str(calls), signature.inputs[0].tensor,
                           ",".join(map(str, x.shape)), folder / "input", output.tensor, folder / "output"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    words = done.stdout.split()
    return np.fromfile(folder / "output", np.float32), dict(zip(words[::2], map(float, words[1::2]), strict=True))


@pytest.mark.parametrize("name", ["keras", "simple_save", "tf_keras"])
def test_results_are_the_original_s(name: str, program: Path, op_library: Path, models: Callable[[str], Path],
                                    converted: Callable[[str], Path], tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32)
    expected, _ = run(program, op_library, models(name), models(name), x, tmp_path)
    found, said = run(program, op_library, converted(name), models(name), x, tmp_path)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert said["runs"] > 0
    assert said["fallbacks"] == 0


@pytest.fixture(scope="session")
def one_region(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A network of 50 layers and 150 variables, as it was and converted to one region."""
    folder = tmp_path_factory.mktemp("one_region")
    keras.utils.set_random_seed(0)
    i = h = keras.Input((8,), name="x")
    for _ in range(50):
        h = keras.layers.LayerNormalization(center=False)(h + keras.layers.Dense(8, activation="tanh")(h))
    keras.Model(i, h).export(str(folder / "model"), verbose=False)
    assert main([f"--input_dir={folder / 'model'}", f"--output_dir={folder / 'converted'}", "--scope=region",
                 "--signatures=serving_default", "--input_ranges=batch=1:1", "--nomeasure"]) == OK
    return folder / "model", folder / "converted"


def test_a_signature_that_is_one_region_costs_the_host_little(program: Path, op_library: Path,
                                                              one_region: tuple[Path, Path], tmp_path: Path) -> None:
    original, converted = one_region
    x = np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)
    expected, before = run(program, op_library, original, original, x, tmp_path, calls=200)
    found, said = run(program, op_library, converted, original, x, tmp_path, calls=2000)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert said["runs"] == 2000  # one region
    assert said["us"] < before["us"] / SHORTER
