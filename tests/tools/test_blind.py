"""Networks are drawn by seeds, run on any backend, and stay on record as they came out first."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import keras
import numpy as np
import pytest

from tools.benchmark.networks import built
from tools.blind import agreement, hub, images, page, record, tables
from tools.blind.draft import Draft
from tools.blind.drawn import BATCHES, FAMILIES, drawn
from tools.blind.record import FIELDS, SeedOnRecordError, append, rows_of

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "benchmarks" / "blind.csv"


def _seed_of(family: object) -> int:
    """The first seed whose network is of a family."""
    return next(seed for seed in range(2000)
                if random.Random(seed).choices([*FAMILIES], [*FAMILIES.values()])[0] is family)


def _row(seed: int, backend: str, milliseconds: object, **others: object) -> dict[str, object]:
    return {"seed": seed, "network": f"network of {seed}", "backend": backend, "median_ms": milliseconds,
            "commit": "1234abcd", "gpu": "H200", "driver": "580", "versions": "jax 1"} | others


def test_a_seed_gives_the_same_network_each_time() -> None:
    assert drawn(3) == drawn(3)
    titles = {str(drawn(seed)) for seed in range(200)}
    assert len(titles) > 190
    assert FAMILIES.keys() == BATCHES.keys()


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in (images.application, hub.backbone)],
                         ids=lambda f: f.__name__)
def test_networks_take_a_batch(family: object) -> None:
    seed = _seed_of(family)
    network, mode, batch = built(f"drawn:tiny:{seed}")
    try:
        wanted, *given = network.batch(batch)
        answer = network.infer(*map(keras.ops.convert_to_tensor, given))
        loss = keras.ops.convert_to_numpy(keras.ops.mean(network.loss(wanted, keras.ops.cast(answer, "float32"))))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert np.isfinite(loss)
    assert mode in ("train", "infer")


def test_backbones_of_keras_hub_have_such_arguments() -> None:
    models = pytest.importorskip("keras_hub").models
    for name in (*hub.DECODERS, *hub.ENCODERS):
        draft = Draft(random.Random(0), tiny=True)
        draft.pick = lambda options, name=name: name if name in options else options[0]  # type: ignore[method-assign]
        hub.backbone(draft)
        names: dict[str, object] = {"keras": keras, "layers": keras.layers}
        exec("\n".join(draft.lines), names)
        assert isinstance(names["backbone"], getattr(models, f"{name}Backbone"))


def test_all_of_keras_applications_are_there() -> None:
    assert all(callable(getattr(keras.applications, name)) for name in images.APPLICATIONS)


def test_sizes_are_multiples_between_their_limits() -> None:
    draft = Draft(random.Random(0))
    drawn_sizes = {draft.size(96, 288, 32) for _ in range(200)}
    assert drawn_sizes == {96, 128, 160, 192, 224, 256, 288}


def test_first_figures_stay(tmp_path: Path) -> None:
    file = tmp_path / "blind.csv"
    append(file, [_row(1, "xla", 2.0), _row(1, "tf_stitch", 1.0)])
    append(file, [_row(2, "xla", 3.0)])
    before = file.read_bytes()
    with pytest.raises(SeedOnRecordError, match=r"seeds \[1\] are on record"):
        append(file, [_row(3, "xla", 1.0), _row(1, "xla", 0.5)])
    assert file.read_bytes() == before
    assert [row["seed"] for row in rows_of(file)] == ["1", "1", "2"]


def test_the_record_is_only_ever_added_to() -> None:
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout

    name = "benchmarks/blind.csv"
    try:
        commits = git("log", "--reverse", "--format=%H", "--", name).split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not git's tree")
    texts = [*(git("show", f"{commit}:{name}") for commit in commits), RECORD.read_text()]
    for earlier, later in pairwise(texts):
        assert later.startswith(earlier), "a row that was on record is gone, or has changed"
    rows = [*csv.DictReader(RECORD.open(newline=""))]
    assert len({(row["seed"], row["backend"]) for row in rows}) == len(rows)


def test_losses_are_held_against_tensorflow_s() -> None:
    wanted = [[2.0], [1.0]]
    assert agreement.said([[2.0], [1.001]], wanted, "float32", False) == "1.0e-03"
    assert agreement.said([[2.0], [1.1]], wanted, "float32", False).startswith("DIFFER: 1.0e-01")
    assert agreement.said([[2.0], [float("nan")]], wanted, "mixed_bfloat16", False) == "DIFFER: inf"
    assert agreement.said([[2.0], [1.5]], wanted, "float32", True) == "random: 5.0e-01"
    assert agreement.said([], wanted, "float32", False) == ""


def test_the_page_tells_means_and_what_is_slower(tmp_path: Path) -> None:
    file = tmp_path / "blind.csv"
    append(file, [_row(1, "tensorflow", 8.0), _row(1, "xla", 2.0, losses="1.0e-03"), _row(1, "tf_stitch", 1.0),
                  _row(2, "tensorflow", 2.0, device_ms=3.0), _row(2, "xla", "failed: no answer within 9 s"),
                  _row(2, "tf_stitch", 4.0, device_ms=2.0, busy=0.5, losses="DIFFER: 2.0e-01")])  # fmt: skip
    text = "\n".join(page.lines(rows_of(file)))
    assert "| TensorFlow | by the clock | 2 | 2.00 | 0.50 | 1 | 1 |" in text
    assert "| XLA | by the clock | 1 | 2.00 | 2.00 | 0 | 0 |" in text
    assert "Slower than TensorFlow:\n\n- 2 (network of 2): 0.50; on the device 1.50, busy 0.5" in text
    assert "agree with TensorFlow's in 1 of 2 rows; else: 2 under tf_stitch (2.0e-01)" in text


def test_a_drawn_network_is_measured_once(tmp_path: Path) -> None:
    """By the command, on TensorFlow and tf_stitch, in processes of their own."""
    file, seed = tmp_path / "blind.csv", _seed_of(tables.towers)
    command = [sys.executable, "-m", "tools.blind", f"--seeds={seed}", "--tiny", "--backends=tf,stitch", "--rounds=1",
               "--calls=1", "--warm_up=1", "--ready=60", f"--csv={file}", "--commit=abc"]  # fmt: skip
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    rows = rows_of(file)
    assert [row["backend"] for row in rows] == ["tensorflow", "tf_stitch"]
    assert all(float(row["median_ms"]) > 0 for row in rows)
    assert not rows[1]["losses"].startswith("DIFFER")
    before = file.read_bytes()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert file.read_bytes() == before
    assert str(drawn(seed, tiny=True)) in file.with_suffix(".md").read_text()
    assert set(rows[0]) == set(FIELDS) == set(record.FIELDS)
