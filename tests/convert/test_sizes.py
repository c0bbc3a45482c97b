from __future__ import annotations

import pytest
import tensorflow as tf

from tf_stitch.convert.saved_model import Signature, Value
from tf_stitch.convert.sizes import (
    MOST_SHAPES,
    Asked,
    check_names,
    named_dims,
    parse_buckets,
    parse_ranges,
    parse_shapes,
    shapes_of,
    spread,
)
from tf_stitch.errors import ConvertError, ConvertFlagError

X = Value("x", "x:0", tf.float32, (None, None, 16))
MASK = Value("mask", "mask:0", tf.float32, (None, None))
SIGNATURE = Signature("serve", (MASK, X), ())


def test_unknown_dimensions_have_names() -> None:
    assert named_dims(SIGNATURE, X, Asked({}, {})) == ("batch", "x_1", 16)
    asked = Asked(parse_shapes(["x=batch,length,16", "mask=batch,length"]), parse_ranges(["length=2:3"]))
    shapes, remarks = shapes_of(SIGNATURE, asked)
    assert shapes[0] == {"mask": (1, 2), "x": (1, 2, 16)}
    assert shapes[-1] == {"mask": (8, 3), "x": (8, 3, 16)}
    assert len(shapes) == 4
    assert remarks == ["serve: dimension batch has kernels for the sizes 1, 8; --input_ranges=batch=1:32 is another "
                       "choice"]


def test_a_shape_of_one_signature_goes_before_others() -> None:
    asked = Asked(parse_shapes(["x=1,2,16", "serve/x=3,4,16"]), {})
    assert named_dims(SIGNATURE, X, asked) == (3, 4, 16)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ConvertError, match="gives dimension 2 of x as 8; the model has 16"):
        named_dims(SIGNATURE, X, Asked({"x": (1, 1, 8)}, {}))
    with pytest.raises(ConvertError, match="gives x 2 dimensions; the model has 3"):
        named_dims(SIGNATURE, X, Asked({"x": (1, 1)}, {}))
    with pytest.raises(ConvertError, match="unknown rank"):
        named_dims(SIGNATURE, Value("y", "y:0", tf.float32, None), Asked({}, {}))


def test_names_that_the_model_does_not_have_are_refused() -> None:
    check_names([SIGNATURE], Asked({"x": (1, "length", 16), "serve/mask": (1, 2)}, {"length": (1, 2)}))
    with pytest.raises(ConvertFlagError, match="names y, which is no input; there are mask, x"):
        check_names([SIGNATURE], Asked({"y": (1, 1)}, {}))
    with pytest.raises(ConvertFlagError, match=r"names bacth, which .* there are batch, mask_1"):
        check_names([SIGNATURE], Asked({}, {"bacth": (1, 2)}))
    unknown = Signature("serve", (Value("y", "y:0", tf.float32, None),), ())
    check_names([unknown], Asked({}, {}))  # samples may have its shape


@pytest.mark.parametrize("text", ["x", "x=1,", "=1", "x=-1", "x=1;2"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(ConvertError, match="is none: write --input_shapes"):
        parse_shapes([text])


@pytest.mark.parametrize("text", ["batch", "batch=", "batch=0:3", "batch=4:3", "1=1:2", "batch=1-2"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ConvertError, match="is none: write --input_ranges"):
        parse_ranges([text])


def test_long_ranges_are_thinned_out_and_keep_their_ends() -> None:
    assert spread(1, 32) == list(range(1, 33))
    sizes = spread(3, 1000)
    assert (sizes[0], sizes[-1]) == (3, 1000)
    assert {4, 8, 16, 512} <= set(sizes)
    assert len(sizes) < 40


def test_there_are_not_too_many_combinations() -> None:
    asked = Asked({}, parse_ranges(["batch=1:32", "x_1=1:32", "mask_1=5"]))
    shapes, remarks = shapes_of(SIGNATURE, asked)
    assert len(shapes) == MOST_SHAPES
    assert shapes[-1] == {"mask": (32, 5), "x": (32, 32, 16)}
    assert f"kernels for {MOST_SHAPES} of 1024 combinations" in remarks[-1]


def test_buckets_are_a_grid_of_single_sizes() -> None:
    asked = Asked({}, parse_ranges(["mask_1=5"]), parse_buckets(["batch=8,1,8", "x_1 = 64, 128"]))
    shapes, remarks = shapes_of(SIGNATURE, asked)
    assert [one["x"] for one in shapes] == [(1, 64, 16), (1, 128, 16), (8, 64, 16), (8, 128, 16)]
    assert remarks == []


@pytest.mark.parametrize("text", ["batch", "batch=", "batch=1:8", "batch=0,8", "batch=1,,8", "=1"])
def test_buckets_that_are_none(text: str) -> None:
    with pytest.raises(ConvertFlagError, match="write --buckets=batch=1,8,32"):
        parse_buckets([text])
    with pytest.raises(ConvertFlagError, match="--buckets names bacth"):
        check_names([SIGNATURE], Asked({}, {}, {"bacth": (1,)}))
