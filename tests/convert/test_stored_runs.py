from __future__ import annotations

from pathlib import Path

import pytest
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tf_stitch.convert.paths import GRAPH_FILE
from tf_stitch.convert.saved_model import Model
from tf_stitch.convert.stored_runs import StoredScope, StoredShapes, StoredVerdicts, Verdicts, identity_of

VERDICTS = Verdicts([1, 3], {"serve": 0.5})


@pytest.fixture
def model(tmp_path: Path) -> Model:
    (tmp_path / GRAPH_FILE).write_bytes(b"a graph")
    return Model(tmp_path, SavedModel(), 0)


def kept(model: Model, *circumstances: str) -> StoredVerdicts:
    return StoredVerdicts(model.path / "cache", identity_of(model), circumstances)


def test_verdicts_are_found_again(model: Model) -> None:
    assert kept(model, "a").recall() is None
    kept(model, "a").keep(VERDICTS)
    assert kept(model, "a").recall() == VERDICTS


def test_other_circumstances_and_other_graphs_have_their_own(model: Model) -> None:
    kept(model, "a").keep(VERDICTS)
    assert kept(model, "b").recall() is None
    assert kept(model, "a", "b").recall() is None
    (model.path / GRAPH_FILE).write_bytes(b"another")
    assert kept(model, "a").recall() is None


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"given_up": ["x"], "times": {}}',
                                  b'{"given_up": [1], "times": [1]}', b"\xff"])
def test_what_makes_no_sense_is_measured_anew(model: Model, text: bytes) -> None:
    one = kept(model)
    one._cache.put(one._key, ".json", text)
    assert one.recall() is None
    assert one._cache.get(one._key, ".json") is None


def test_shapes_are_found_again_until_the_variables_are_others(model: Model) -> None:
    seen = {3: [((2, 4), ()), ((5, 4), ())], 4: []}

    def shapes() -> StoredShapes:
        return StoredShapes(model.path / "cache", identity_of(model), ["a"])

    assert shapes().recall() is None
    shapes().keep(seen)
    assert shapes().recall() == seen
    assert kept(model, "a").recall() is None
    (model.path / "variables").mkdir()
    (model.path / "variables" / "variables.index").write_bytes(b"checksums")
    assert shapes().recall() is None


@pytest.mark.parametrize("text", [b"", b"{}x", b"[1]", b'[["x", []]]', b"[[1, [[1]]]]", b"\xff"])
def test_shapes_that_make_no_sense_are_seen_anew(model: Model, text: bytes) -> None:
    one = StoredShapes(model.path / "cache", identity_of(model), [])
    one._cache.put(one._key, ".json", text)
    assert one.recall() is None
    assert one._cache.get(one._key, ".json") is None


def test_a_folder_that_cannot_be_written_is_no_error(model: Model) -> None:
    one = StoredVerdicts(Path("/proc/sys/cache"), "a", [])
    one.keep(VERDICTS)


def test_the_scope_is_found_again(model: Model) -> None:
    one = StoredScope(model.path / "cache", identity_of(model), ["a"])
    assert one.recall() is None
    one.keep("region")
    assert one.recall() == "region"
    assert StoredScope(model.path / "cache", identity_of(model), ["b"]).recall() is None


@pytest.mark.parametrize("text", [b"", b"[]", b'"everything"', b"\xff"])
def test_a_scope_that_makes_no_sense_is_tried_anew(model: Model, text: bytes) -> None:
    one = StoredScope(model.path / "cache", identity_of(model), [])
    one._cache.put(one._key, ".json", text)
    assert one.recall() is None
    assert one._cache.get(one._key, ".json") is None
