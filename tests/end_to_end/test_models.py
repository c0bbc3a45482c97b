"""Every model of the zoo trains 20 steps and infers, with and without TF_STITCH=1: same losses, same outputs.

They run on a GPU where TensorFlow sees one, by the same command.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.program import signature
from models.zoo import ASTITCH, DECODERS, NAMES, load
from tests.end_to_end.conftest import ROOT, Plain, Runner
from tests.support.tiers import each_commit, of_today
from tests.support.zoo_case import Case, check_model

SCRIPTS = sorted((ROOT / "models").glob("*.py"))
COVERED = ("aiwriter", "asr", "dien", "transformer")
"""Run on request alone as they are here. Dien and transformer are run in halves (test_model_variants.py), and what
else is in these four is in others: encoders with attention in bert and multi-interests, decoders that take one
word after the other, with attention and in a search, in nmt, LSTMs over lengths that vary in rokid, convolutions in
front of them in crnn."""
IN_TURNS = ("bert", "crnn", "multi-interests", "nmt", "rokid")
"""One of these each day: they take five times as long as all the others, and tests/golden holds the plans of each."""
SMALL = [name for name in NAMES if name not in (*COVERED, *IN_TURNS)]


@pytest.mark.parametrize("model", SMALL)
def test_same_losses_and_outputs(model: str, forked: Runner, tensorflow: Plain, tmp_path: Path) -> None:
    check_model(Case(model), forked, tensorflow, tmp_path)


@pytest.mark.of_today
@pytest.mark.parametrize("model", each_commit(of_today(IN_TURNS, 1), (*IN_TURNS, *COVERED)))
@pytest.mark.timeout(900)
def test_same_losses_and_outputs_of_a_large_model(model: str, forked: Runner, tensorflow: Plain, tmp_path: Path
                                                  ) -> None:
    check_model(Case(model), forked, tensorflow, tmp_path)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_never_mentions_tf_stitch(path: Path) -> None:
    text = path.read_text().lower().replace("fusionstitching", "").replace("fusion_stitching", "")
    assert "stitch" not in text.replace("astitch", "")


def test_every_file_is_in_the_zoo() -> None:
    scripts = {path.stem for path in SCRIPTS if "__main__" in path.read_text()}
    assert scripts == {name.replace("-", "_") for name in (*NAMES, *DECODERS)}
    assert len(NAMES) == 15


@pytest.mark.parametrize("name", NAMES)
def test_has_a_row_of_the_papers(name: str) -> None:
    model = load(name)
    assert model.name == name
    assert set(model.configs) >= {"small", "paper"}
    assert model.modes in (("train",), ("infer",), ("train", "infer"))


def test_batches_of_the_paper() -> None:
    """AStitch, Table 2."""
    bert, transformer, dien = (load(name).configs["paper"] for name in ("bert", "transformer", "dien"))
    assert (bert.train_batch, bert.infer_batch) == (12, 200)
    assert transformer.tokens == 4096
    assert dien.batch == 256
    for name in ("crnn", "asr", "transformer"):
        model = load(name)
        [rows] = {value.shape[0] for batch in data(name).infer for value in batch.values()}
        assert rows == 1, name
        assert "infer" in model.modes


VARIABLE = {"crnn", "asr", "transformer", "dien", "nmt", "multi-interests", "rokid", "aiwriter"}
"""Models whose inputs vary in length from batch to batch."""


def data(name: str):
    model = load(name)
    return model.data(model.configs["small"], np.random.default_rng(0))


@pytest.mark.parametrize("name", NAMES)
def test_lengths_vary_where_the_original_has_them_vary(name: str) -> None:
    for batches in (data(name).train, data(name).infer):
        unknown = any(None in spec.shape.as_list() for spec in signature(batches).values())
        assert unknown == (name in VARIABLE)


def test_data_is_the_same_every_time() -> None:
    for first, second in zip(data("dien").train, data("dien").train, strict=True):
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_mixed_precision_is_where_the_paper_has_it() -> None:
    mixed = {name for name in NAMES if "mixed_float16" in load(name).dtypes}
    assert mixed == {"bert", "transformer", "dien"} < set(ASTITCH)
