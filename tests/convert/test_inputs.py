from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tf_stitch.convert.inputs import generated, samples
from tf_stitch.convert.saved_model import Signature, Value
from tf_stitch.errors import ConvertError

SIGNATURE = Signature("serve", (Value("ids", "i:0", tf.int32, (None, 3)), Value("s", "s:0", tf.string, (None,)),
                                Value("x", "x:0", tf.float32, (None, 2))), ())
SHAPES = {"ids": (4, 3), "s": (4,), "x": (4, 2)}


def test_the_same_shapes_give_the_same_inputs() -> None:
    case = generated(SIGNATURE, SHAPES)
    assert case.shapes == SHAPES
    assert case.digest() == generated(SIGNATURE, SHAPES).digest()
    assert case.digest() != generated(SIGNATURE, SHAPES, seed=1).digest()
    assert {value.dtype for value in case.values.values()} == {np.dtype(np.int32), np.dtype(object),
                                                               np.dtype(np.float32)}


def test_samples_of_arrays(tmp_path: Path) -> None:
    values = {"ids": np.zeros((2, 4, 3), np.int64), "s": np.full((2, 4), "a"), "serve/x": np.ones((2, 4, 2))}
    np.savez(tmp_path / "several.npz", **values)
    several = samples(tmp_path / "several.npz", [SIGNATURE])
    assert [case.origin for case in several] == ["several.npz[0]", "several.npz[1]"]
    assert several[0].shapes == SHAPES
    assert several[0].values["ids"].dtype == np.int32
    np.savez(tmp_path / "one.npz", **{name: value[0] for name, value in values.items()})
    assert [case.shapes for case in samples(tmp_path / "one.npz", [SIGNATURE])] == [SHAPES]


def test_samples_of_records(tmp_path: Path) -> None:
    features = {"ids": tf.train.Feature(int64_list=tf.train.Int64List(value=range(6))),
                "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"])),
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=[1, 2, 3, 4]))}
    with tf.io.TFRecordWriter(str(tmp_path / "records")) as writer:
        writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    [case] = samples(tmp_path / "records", [SIGNATURE])
    assert case.shapes == {"ids": (2, 3), "s": (2,), "x": (2, 2)}
    np.testing.assert_array_equal(case.values["ids"], [[0, 1, 2], [3, 4, 5]])


def test_what_are_no_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="there is no file"):
        samples(tmp_path / "gone.npz", [SIGNATURE])
    np.savez(tmp_path / "others.npz", other=np.zeros(3))
    with pytest.raises(ConvertError, match="inputs of none of the signatures serve"):
        samples(tmp_path / "others.npz", [SIGNATURE])
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(ConvertError, match="cannot be read as samples"):
        samples(tmp_path / "text.npz", [SIGNATURE])


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 cut", None])
def test_damaged_samples_are_refused(data: bytes | None, tmp_path: Path) -> None:
    np.savez(tmp_path / "cut.npz", x=np.zeros((4, 2)))
    if data is None:
        whole = bytearray((tmp_path / "cut.npz").read_bytes())
        whole[100:110] = bytes(10)
        data = bytes(whole)
    (tmp_path / "cut.npz").write_bytes(data)
    with pytest.raises(ConvertError, match=r"cannot be read as samples|inputs of none"):
        samples(tmp_path / "cut.npz", [Signature("serve", (SIGNATURE.inputs[2],), ())])


def test_records_of_other_things_are_refused(tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "records")) as writer:
        writer.write(b"\xff\xff no example")
    with pytest.raises(ConvertError, match="cannot be read as samples"):
        samples(tmp_path / "records", [SIGNATURE])
    features = tf.train.Features(feature={v.name: tf.train.Feature() for v in SIGNATURE.inputs})
    with tf.io.TFRecordWriter(str(tmp_path / "empty")) as writer:
        writer.write(tf.train.Example(features=features).SerializeToString())
    with pytest.raises(ConvertError, match="feature ids is empty"):
        samples(tmp_path / "empty", [SIGNATURE])


@pytest.mark.parametrize(("name", "array"), [("ids", np.full((4, 3), 0.5)), ("ids", np.full((4, 3), 1 << 40)),
                                             ("x", np.full((4, 2), "a")), ("s", np.zeros(4))])
def test_arrays_of_other_types_are_refused(name: str, array: np.ndarray, tmp_path: Path) -> None:
    values = {"ids": np.zeros((4, 3), np.int32), "s": np.full(4, "a"), "x": np.ones((4, 2))} | {name: array}
    np.savez(tmp_path / "samples.npz", **values)
    with pytest.raises(ConvertError, match=f"input {name} is of"):
        samples(tmp_path / "samples.npz", [SIGNATURE])
