"""Inputs to convert and check a model with: generated for the shapes asked for, and the user's samples."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from tf_stitch.convert.saved_model import Signature, Value
from tf_stitch.convert.sizes import Shapes
from tf_stitch.errors import ConvertError

WORDS = ("a", "the", "tensor", "flow", "7", "stitch")
MOST_SAMPLES = 64


@dataclass(frozen=True)
class Case:
    """One call of a signature.

    Attributes:
        origin: "generated", or the place of a sample.
    """

    signature: str
    origin: str
    values: Mapping[str, NDArray[Any]]

    @property
    def shapes(self) -> Shapes:
        return {name: value.shape for name, value in self.values.items()}

    def digest(self) -> str:
        """Hex SHA-256 of names, types, shapes and elements."""
        return digest_of(self.values)


def digest_of(values: Mapping[str, NDArray[Any]]) -> str:
    """Hex SHA-256 of names, types, shapes and elements."""
    digest = hashlib.sha256()
    for name, value in sorted(values.items()):
        digest.update(f"{name} {value.dtype} {value.shape}\0".encode())
        digest.update("\0".join(map(repr, value.ravel())).encode() if value.dtype == object else value.tobytes())
    return digest.hexdigest()


def generated(signature: Signature, shapes: Shapes, seed: int = 0) -> Case:
    """Random inputs, the same for the same seed and shapes: floats of a normal distribution, whole numbers 0 and 1,
    which index tables of any length, words."""
    key = zlib.crc32(f"{signature.name} {sorted(shapes.items())}".encode())
    random = np.random.default_rng([seed, key])
    return Case(signature.name, "generated", {value.name: _random(value, shapes[value.name], random)
                                              for value in signature.inputs})


def _random(value: Value, shape: tuple[int, ...], random: np.random.Generator) -> NDArray[Any]:
    dtype = value.dtype
    if dtype == tf.string:
        return np.array(random.choice(WORDS, size=shape), dtype=object)
    if dtype == tf.bool:
        return np.asarray(random.random(shape) < 0.5)
    if dtype.is_integer:
        return np.asarray(random.integers(0, 2, shape)).astype(dtype.as_numpy_dtype)
    if dtype.is_complex:
        return np.asarray(random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(
            dtype.as_numpy_dtype)
    if dtype.is_floating:
        return np.asarray(random.standard_normal(shape)).astype(dtype.as_numpy_dtype)
    raise ConvertError(f"input {value.name} has type {dtype.name}, of which no inputs can be made: give some by "
                       "--samples")


def samples(path: Path, signatures: Sequence[Signature]) -> list[Case]:
    """Real inputs from a file: .npz, arrays by input, or by signature/input; or a TFRecord of tf.train.Examples, a
    feature each input, a record each call. Arrays that have one dimension more than the input hold several calls.

    Raises:
        ConvertError: there is no such file, or it lacks an input.
    """
    if not path.exists():
        raise ConvertError(f"there is no file {path}: --samples names an .npz or a TFRecord of inputs")
    try:
        found = _of_npz(path, signatures) if path.suffix == ".npz" else _of_records(path, signatures)
        cases = list(found)
    except (OSError, EOFError, ValueError, BadZipFile, zlib.error, DecodeError, tf.errors.OpError) as error:
        raise ConvertError(f"{path} cannot be read as samples: {error}") from None
    if not cases:
        raise ConvertError(f"{path} has inputs of none of the signatures {', '.join(s.name for s in signatures)}")
    return cases


def _of_npz(path: Path, signatures: Sequence[Signature]) -> Iterator[Case]:
    with np.load(path, allow_pickle=False) as arrays:
        for signature in signatures:
            given: dict[str, NDArray[Any]] = {}
            for value in signature.inputs:
                key = next((k for k in (f"{signature.name}/{value.name}", value.name) if k in arrays), None)
                if key is not None:
                    given[value.name] = _of_array(value, arrays[key])
            if len(given) < len(signature.inputs):
                continue
            ranks = {v.name: None if v.dims is None else len(v.dims) for v in signature.inputs}
            if all(ranks[n] is not None and a.ndim == (ranks[n] or 0) + 1 for n, a in given.items()) and given:
                calls = min(len(array) for array in given.values())
                for i in range(min(calls, MOST_SAMPLES)):
                    yield Case(signature.name, f"{path.name}[{i}]", {n: a[i] for n, a in given.items()})
            else:
                yield Case(signature.name, path.name, given)


def _of_array(value: Value, array: NDArray[Any]) -> NDArray[Any]:
    """
    Raises:
        ValueError: its elements are not of the input's type.
    """
    if value.dtype == tf.string or array.dtype.kind in "US":
        if (value.dtype == tf.string) != (array.dtype.kind in "US"):
            raise ValueError(f"input {value.name} is of {value.dtype.name}, the array of {array.dtype}")
        return array.astype(object)
    found: NDArray[Any] = array.astype(value.dtype.as_numpy_dtype, copy=False)
    if not (value.dtype.is_floating or value.dtype.is_complex) and not np.array_equal(found, array):
        raise ValueError(f"input {value.name} is of {value.dtype.name}, which cannot hold what its array has")
    return found


def _of_records(path: Path, signatures: Sequence[Signature]) -> Iterator[Case]:
    for i, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()):
        if i == MOST_SAMPLES:
            return
        features = tf.train.Example.FromString(record).features.feature
        for signature in signatures:
            if all(value.name in features for value in signature.inputs):
                yield Case(signature.name, f"{path.name}[{i}]",
                           {v.name: _of_feature(v, features[v.name]) for v in signature.inputs})


def _of_feature(value: Value, feature: Any) -> NDArray[Any]:
    kind = feature.WhichOneof("kind")
    if kind is None:
        raise ValueError(f"feature {value.name} is empty")
    items = getattr(feature, kind).value
    array = np.array(list(items), object if value.dtype == tf.string else value.dtype.as_numpy_dtype)
    unknown = [axis for axis, d in enumerate(value.dims or ()) if d is None]
    if value.dims is None or not unknown:
        return array if value.dims is None else array.reshape([d or 1 for d in value.dims])
    shape = [1 if d is None else d for d in value.dims]  # all but the last unknown one are 1
    shape[unknown[-1]] = -1
    return array.reshape(shape)
