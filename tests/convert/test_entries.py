"""Kinds of signature that there are besides those of models.py, checked by their certificate; and flags."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import script_ops

from tf_stitch.convert.command import OK, REFUSED, main
from tf_stitch.convert.paths import CERTIFICATE, MANIFEST, OWN_FOLDER

FLOATS = tf.TensorSpec([None, 16], name="x")


class WithoutInputs(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.v = tf.Variable(tf.ones([8, 8]))

    @tf.function(input_signature=[])
    def a(self) -> dict[str, Any]:
        return {"y": tf.nn.softmax(tf.tanh(self.v) * 2.0 + 1.0)}


class NothingToConvert(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="s")])
    def a(self, s: Any) -> dict[str, Any]:
        return {"length": tf.strings.length(s), "s": s, "c": tf.constant(3.0)}


class UnknownRank(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, name="x")])
    def a(self, x: Any) -> dict[str, Any]:
        return {"y": tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0)}


class ActiveDropout(tf.Module):
    @tf.function(input_signature=[FLOATS])
    def a(self, x: Any) -> dict[str, Any]:
        # tf.nn.dropout would take a seed that another test has set, and both models would draw the same numbers.
        drawn = tf.raw_ops.RandomUniform(shape=tf.shape(x), dtype=tf.float32, seed=0, seed2=0)
        return {"y": tf.where(drawn < 0.5, 0.0, tf.tanh(x) * 4.0), "z": tf.sigmoid(x) * 2.0 + x}


class PartForXla(tf.Module):
    """What it marks for XLA calls a function that others call, too."""

    @tf.function(autograph=False)
    def inner(self, x: Any) -> Any:
        return tf.tanh(x) * 2.0 + 1.0

    @tf.function(jit_compile=True)
    def compiled(self, x: Any) -> Any:
        return tf.sigmoid(self.inner(x)) - 1.0

    @tf.function(input_signature=[FLOATS])
    def a(self, x: Any) -> dict[str, Any]:
        return {"y": self.compiled(x) + tf.sigmoid(x) * 3.0}


class CallsPython(tf.Module):
    @tf.function(input_signature=[FLOATS])
    def a(self, x: Any) -> dict[str, Any]:
        return {"y": tf.numpy_function(lambda v: v * 2, [tf.tanh(x) * 2.0 + 1.0], tf.float32)}


class DynamicLength(tf.Module):
    """Its shapes are computed in the graph."""

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4], name="x")])
    def a(self, x: Any) -> dict[str, Any]:
        y = tf.tanh(x) * 2.0
        for _ in range(2):
            batch, length = tf.shape(y)[0], tf.shape(y)[1]
            y = tf.transpose(tf.reshape(tf.sigmoid(y) + 1.0, [batch, length, 2, 2]), [0, 2, 1, 3])
            y = tf.reshape(tf.transpose(tf.nn.softmax(y * 3.0), [0, 2, 1, 3]), [batch, length, 4])
        return {"y": y}


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[tf.Module], Path]:
    """Saves a module whose `a` is a signature."""

    def save(module: Any) -> Path:
        tf.saved_model.save(module, str(tmp_path / "model"), signatures={"a": module.a})
        return tmp_path / "model"

    return save


def convert(model: Path, *flags: str) -> tuple[int, Path]:
    """Exit code, and the converted model's folder."""
    target = model.with_name("out")
    return main([f"--input_dir={model}", f"--output_dir={target}", "--nomeasure", *flags]), target


def certificate(model: Path) -> Any:
    return json.loads((model / OWN_FOLDER / CERTIFICATE).read_text())


@pytest.mark.parametrize("module", [WithoutInputs, NothingToConvert, DynamicLength, PartForXla])
def test_it_converts_and_verifies(module: type[tf.Module], saved: Callable[[tf.Module], Path]) -> None:
    code, target = convert(saved(module()))
    assert code == OK
    assert certificate(target)["passes"]
    assert main([f"--verify_only={target}"]) == OK


def test_an_input_of_unknown_rank_gets_the_shape_that_is_given(saved: Callable[[tf.Module], Path],
                                                               capsys: pytest.CaptureFixture[str]) -> None:
    model = saved(UnknownRank())
    assert convert(model)[0] == REFUSED
    assert "unknown rank: give its shape by --input_shapes=x=" in capsys.readouterr().err
    code, target = convert(model, "--input_shapes=x=4,8")
    assert code == OK
    assert certificate(target)["cases"][0]["shapes"] == {"x": [4, 8]}


def test_python_code_is_in_no_saved_model(saved: Callable[[tf.Module], Path], capsys: pytest.CaptureFixture[str],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    model = saved(CallsPython())
    monkeypatch.setattr(script_ops._py_funcs, "_funcs", {})  # as in another process
    assert convert(model)[0] == REFUSED
    assert "it calls Python code" in capsys.readouterr().err


def test_of_an_active_dropout_only_its_own_output_is_excused(saved: Callable[[tf.Module], Path]) -> None:
    code, target = convert(saved(ActiveDropout()))
    assert code == OK
    assert all(case["random"] == ["y"] for case in certificate(target)["cases"])


def test_ops_that_nothing_needs_any_more_are_told_apart(saved: Callable[[tf.Module], Path],
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    assert convert(saved(DynamicLength()), "--dry_run")[0] == OK
    said = capsys.readouterr().out.splitlines()[-1]
    assert " not needed any more, " in said
    assert "in no region" not in said


def test_samples_get_kernels_and_are_in_the_certificate(saved: Callable[[tf.Module], Path], tmp_path: Path) -> None:
    samples = tmp_path / "samples.npz"
    np.savez(samples, x=np.random.default_rng(0).standard_normal((2, 3, 5, 4)).astype(np.float32))
    code, target = convert(saved(DynamicLength()), f"--samples={samples}")
    assert code == OK
    assert [(c["origin"], c["shapes"]) for c in certificate(target)["cases"]] == [
        ("samples.npz[0]", {"x": [3, 5, 4]}), ("samples.npz[1]", {"x": [3, 5, 4]})]
    assert main([f"--verify_only={target}", f"--samples={samples}"]) == OK


def test_samples_are_not_repeated_without_their_file(saved: Callable[[tf.Module], Path], tmp_path: Path,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "samples.npz", x=np.ones((3, 5, 4), np.float32))
    _, target = convert(saved(DynamicLength()), f"--samples={tmp_path / 'samples.npz'}")
    assert main([f"--verify_only={target}"]) == OK
    assert "samples.npz of a was not repeated: give the file by --samples" in capsys.readouterr().out


def test_a_tolerance_of_nothing_refuses_and_is_stored(saved: Callable[[tf.Module], Path],
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    model = saved(DynamicLength())
    assert convert(model, "--tolerance=0")[0] == REFUSED
    assert "where 0 is allowed (--tolerance)" in capsys.readouterr().err
    code, target = convert(model, "--tolerance=10")
    assert code == OK
    assert certificate(target)["bounds"]["float32"] == pytest.approx(1e-3)


def test_only_the_signatures_asked_for_are_converted(models: Callable[[str], Path], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    target = tmp_path / "out"
    assert main([f"--input_dir={models('module')}", f"--output_dir={target}", "--signatures=other", "--nomeasure",
                 "--input_ranges=batch=3:3", f"--report={report}"]) == OK
    assert json.loads((target / OWN_FOLDER / MANIFEST).read_text())["signatures"] == ["other"]
    assert {case["signature"] for case in certificate(target)["cases"]} == {"other"}
    assert all("serve" not in name for name in json.loads(report.read_text())["functions"])
