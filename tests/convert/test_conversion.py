"""Converted models of every kind give the original's results in a process without tf_stitch."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.convert.models import MAKERS
from tf_stitch.convert.command import OK, REFUSED, main
from tf_stitch.convert.kernels import AheadBuilder
from tf_stitch.convert.paths import MANIFEST, OWN_FOLDER

ATOL = {"half": 2e-2}
"""Other models keep to 1e-5."""


def inputs(name: str, rows: int) -> dict[str, Any]:
    x = np.random.default_rng(rows).standard_normal((rows, 16)).astype(np.float32)
    first = "dense_input" if name == "tf_keras" else "x"
    return {first: x} | ({"s": np.array([b"a", b"c", b"x", b"b", b"a"][:rows])} if name == "module" else {})


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_results_are_the_original_s_without_python(name: str, models: Callable[[str], Path],
                                                   converted: Callable[[str], Path],
                                                   use: Callable[..., dict[str, Any]]) -> None:
    said = use(models(name), converted(name), **inputs(name, 3))
    assert max(said["worst"].values()) < ATOL.get(name, 1e-5)
    assert said["runs"] > 0
    assert said["fallbacks"] == 0


@pytest.mark.parametrize("name", ["keras", "module"])
def test_regions_that_read_variables_load(name: str, models: Callable[[str], Path], tmp_path: Path,
                                          use: Callable[..., dict[str, Any]]) -> None:
    """As on GPUs, where regions hold the matmuls of layers."""
    out = tmp_path / "out"
    assert main([f"--input_dir={models(name)}", f"--output_dir={out}", "--scope=region", "--input_ranges=batch=3:4",
                 "--nomeasure"]) == OK
    said = use(models(name), out, **inputs(name, 3))
    assert max(said["worst"].values()) < 1e-5
    assert said["runs"] > 0
    assert said["fallbacks"] == 0


def test_shapes_without_kernels_run_the_region_s_own_nodes(models: Callable[[str], Path],
                                                           converted: Callable[[str], Path],
                                                           use: Callable[..., dict[str, Any]]) -> None:
    said = use(models("keras"), converted("keras"), **inputs("keras", 5))
    assert max(said["worst"].values()) < 1e-5
    assert said["runs"] == 0
    assert said["fallbacks"] > 0
    assert said["stderr"].count("no kernels were built for these shapes") == 1
    assert f"[tf_stitch] {converted('keras')}: region " in said["stderr"]
    assert re.search(r"runs TensorFlow's own ops for .*\[5,32\]", said["stderr"])
    assert "PredictCost" not in said["stderr"]


def test_counts_are_by_model_and_shape(models: Callable[[str], Path], converted: Callable[[str], Path],
                                       use: Callable[..., dict[str, Any]]) -> None:
    for rows, column, total in ((3, 3, "runs"), (5, 4, "fallbacks")):
        said = use(models("keras"), converted("keras"), **inputs("keras", rows))
        assert {model for model, *_ in said["shapes"]} == {str(converted("keras"))}
        assert all(f"[{rows}," in shape for _, _, shape, *_ in said["shapes"])
        assert sum(one[column] for one in said["shapes"]) == said[total] > 0
        assert sum(one[7 - column] for one in said["shapes"]) == 0


def test_kernels_whose_hash_is_wrong_are_refused(models: Callable[[str], Path], converted: Callable[[str], Path],
                                                 use: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(converted("keras"), damaged)
    manifest = json.loads((damaged / OWN_FOLDER / MANIFEST).read_text())
    file = damaged / manifest["module"]
    data = bytearray(file.read_bytes())
    head = data.index(b"\x7fELF")
    for at in range(head, len(data)):  # every kernel, not the head
        data[at] ^= 1
    file.write_bytes(data)
    said = use(models("keras"), damaged, **inputs("keras", 3))
    assert max(said["worst"].values()) < 1e-5
    assert said["runs"] == 0
    assert "refused" in said["stderr"]


def test_a_module_that_is_gone_leaves_tensorflow_s_ops(models: Callable[[str], Path], converted: Callable[[str], Path],
                                                       use: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    without = tmp_path / "without"
    shutil.copytree(converted("keras"), without)
    file = without / json.loads((without / OWN_FOLDER / MANIFEST).read_text())["module"]
    file.write_bytes(b"nothing")
    said = use(models("keras"), without, **inputs("keras", 3))
    assert max(said["worst"].values()) < 1e-5
    assert said["runs"] == 0
    assert "the file is no module" in said["stderr"]


def test_the_input_is_untouched_and_nothing_else_is_left(models: Callable[[str], Path], tmp_path: Path) -> None:
    source = models("keras")
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    assert main([f"--input_dir={source}", f"--output_dir={tmp_path / 'new' / 'model'}", "--nomeasure"]) == 0
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model"]


def test_the_manifest_tells_what_it_was_made_with(converted: Callable[[str], Path]) -> None:
    manifest = json.loads((converted("keras") / OWN_FOLDER / MANIFEST).read_text())
    [target] = manifest["targets"]
    assert target["name"] == "cpu"
    assert any(character.isdigit() for character in target["compiler"])
    assert all(len(region["ir_sha256"]) == 64 for region in manifest["regions"])
    assert {"tf_stitch", "tensorflow", "python", "module_sha256"} <= set(manifest)


def test_what_is_not_a_function_s_body_is_kept(models: Callable[[str], Path], converted: Callable[[str], Path]) -> None:
    one, other = models("module"), converted("module")
    kept = [path.relative_to(one) for path in one.rglob("*") if path.is_file()
            and path.name not in ("saved_model.pb", "fingerprint.pb")]
    assert kept
    for path in kept:
        assert (other / path).read_bytes() == (one / path).read_bytes(), path


def test_verify_only_repeats_the_certificate(converted: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
                                             ) -> None:
    assert main([f"--verify_only={converted('module')}"]) == 0
    assert "4 of 4 runs like the original" in capsys.readouterr().out


def test_a_dry_run_writes_nothing_and_tells_the_coverage(models: Callable[[str], Path], tmp_path: Path,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--input_dir={models('keras')}", f"--report={tmp_path / 'report.json'}", "--dry_run"]) == 0
    *shapes, said = capsys.readouterr().out.splitlines()[-5:]  # two lines a signature
    assert said.startswith("21 ops: 19 in 2 regions, ")  # nothing is built that would have kernels
    assert "not needed any more" not in said
    assert said.endswith("2 left (2 MatMul is a library call too large for a region)")
    assert ["allowed_batch_sizes: [1, 8]" in line for line in shapes] == [False, True] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_model_that_differs_is_not_written_and_the_first_node_is_named(
        models: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch) -> None:
    files = AheadBuilder._files
    monkeypatch.setattr(AheadBuilder, "_files",
                        lambda self, sources: files(self, [s.replace("1.5f", "1.75f") for s in sources]))
    assert main([f"--input_dir={models('keras')}", f"--output_dir={tmp_path / 'out'}", "--nomeasure",
                 f"--report={tmp_path / 'report.json'}"]) == REFUSED
    said = capsys.readouterr().err
    assert "the model is not written" in said
    assert "The first node that differs is" in said
    report = json.loads((tmp_path / "report.json").read_text())
    assert not report["certificate"]["passes"]
    assert "The first node that differs is functional" in report["problem"]
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
