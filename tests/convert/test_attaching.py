"""A program of TensorFlow's C API, without Python, loads and runs converted models; models that are loaded, wrapped and
saved again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.convert.models import MAKERS
from tests.convert.test_conversion import ATOL, inputs
from tests.support.model_loader import model_loader
from tf_stitch.convert.paths import GRAPH_FILE
from tf_stitch.convert.saved_model import parse, read_model
from tools.benchmark.conversion_host import one_region, run_loader

Folder = Callable[[str], Path]
Use = Callable[..., dict[str, Any]]
X = np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32)
SHORTER = 5
"""How much shorter a call is of a network of 48 variables that is one region: 13 us with its 8 kernels, of the original
336 (two busy cores of an EPYC with AVX-512)."""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_loader(tmp_path_factory.mktemp("loader"))


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
    one_region(tmp_path, layers=16)
    original, converted = tmp_path / "original", tmp_path / "converted"
    x = np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)
    expected, before = run(program, op_library, original, original, x, tmp_path, calls=200)
    found, said = run(program, op_library, converted, original, x, tmp_path, calls=2000)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert said["runs"] == 2000  # one region
    assert said["us"] < before["us"] / SHORTER


def saved_again(path: Path, folder: Path, op_library: Path) -> Path:
    tf.load_op_library(str(op_library))
    model = tf.saved_model.load(str(path))
    tf.saved_model.save(model, str(folder), signatures=dict(model.signatures))
    return folder


@pytest.mark.parametrize("name", [name for name in MAKERS if name not in ("simple_save", "old_graph")])
def test_a_loaded_model_is_saved_again(name: str, models: Folder, converted: Folder, op_library: Path, use: Use,
                                       tmp_path: Path) -> None:
    again = saved_again(converted(name), tmp_path / "again", op_library)
    said = use(models(name), again, **inputs(name, 3))
    assert max(said["worst"].values()) <= ATOL.get(name, 1e-5)
    assert said["runs"] > 0
    assert said["fallbacks"] == 0
    assert "tf_stitch" not in said["stderr"]


def test_what_is_saved_again_is_saved_once_more(models: Folder, converted: Folder, op_library: Path, use: Use,
                                                tmp_path: Path) -> None:
    again = saved_again(converted("swish"), tmp_path / "again", op_library)
    said = use(models("swish"), saved_again(again, tmp_path / "once_more", op_library), x=X)
    assert max(said["worst"].values()) <= 1e-5
    assert said["runs"] > 0


class Batched(tf.Module):
    """What a server puts around a model: preprocessing, and one call for the requests that come together."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

        @tf.nondifferentiable_batch_function(num_batch_threads=1, max_batch_size=4, batch_timeout_micros=1000,
                                             allowed_batch_sizes=[3, 4])
        def together(x: Any) -> Any:
            return next(iter(model.signatures["serving_default"](x=x).values()))

        self._together = together

    @tf.function(input_signature=[tf.TensorSpec([None, 16], name="x")])
    def serve(self, x: Any) -> dict[str, Any]:
        return {"y": self._together(x * 2.0 - x)}


def test_a_model_with_batching_around_it(models: Folder, converted: Folder, op_library: Path, use: Use, tmp_path: Path
                                         ) -> None:
    tf.load_op_library(str(op_library))
    for name, path in (("original", models("keras")), ("converted", converted("keras"))):
        made = Batched(tf.saved_model.load(str(path)))
        tf.saved_model.save(made, str(tmp_path / name), signatures={"serving_default": made.serve})
    said = use(tmp_path / "original", tmp_path / "converted", x=X)
    assert said["worst"]["serving_default"] <= 1e-5
    assert said["runs"] > 0
    assert said["fallbacks"] == 0


def test_keras_layers_around_a_model(models: Folder, converted: Folder, op_library: Path, use: Use, tmp_path: Path
                                     ) -> None:
    tf.load_op_library(str(op_library))
    for name, path in (("original", models("keras")), ("converted", converted("keras"))):
        keras.utils.set_random_seed(0)
        i = keras.Input((16,), name="x")
        h = keras.layers.TFSMLayer(str(path), call_endpoint="serving_default")(keras.layers.Dense(16)(i))
        h = next(iter(h.values())) if isinstance(h, dict) else h
        keras.Model(i, keras.layers.Dense(3)(h)).export(str(tmp_path / name), verbose=False)
    said = use(tmp_path / "original", tmp_path / "converted", x=X)
    assert max(said["worst"].values()) <= 1e-5
    assert said["runs"] > 0
