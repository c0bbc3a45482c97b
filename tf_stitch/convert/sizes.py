"""Sizes of unknown dimensions: what --input_shapes and --input_ranges say, and the shapes to convert for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tf_stitch.convert.saved_model import Signature, Value
from tf_stitch.errors import ConvertError, ConvertFlagError

Dims = tuple[int | str, ...]
Shapes = dict[str, tuple[int, ...]]
"""By input."""

DEFAULT_SIZES = (1, 8)
"""Of a dimension of which nothing is said."""
MOST_OF_A_RANGE = 32
MOST_SHAPES = 96
"""That a signature has kernels for."""
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Asked:
    """What the user says of unknown dimensions.

    Attributes:
        shapes: input, or signature/input -> dimensions, numbers or names.
        ranges: name of a dimension -> lowest and highest size.
        buckets: name of a dimension -> its sizes, each of which gets kernels.
    """

    shapes: Mapping[str, Dims]
    ranges: Mapping[str, tuple[int, int]]
    buckets: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def sizes_of(self, name: str) -> list[int]:
        """The sizes of a dimension that get kernels."""
        if name in self.buckets:
            return sorted(self.buckets[name])
        return spread(*self.ranges[name]) if name in self.ranges else list(DEFAULT_SIZES)


def parse_shapes(texts: Sequence[str]) -> dict[str, Dims]:
    """Reads --input_shapes, `input=dimension,...` each.

    Raises:
        ConvertFlagError: one is none.
    """
    found: dict[str, Dims] = {}
    for text in texts:
        name, equals, dims = text.partition("=")
        parts = [part.strip() for part in dims.split(",")] if dims.strip() else []
        if not equals or not name or any(not (p.isdigit() or _NAME.fullmatch(p)) for p in parts):
            raise ConvertFlagError(f"--input_shapes={text} is none: write --input_shapes=input=8,16 or "
                                   "--input_shapes=input=batch,16, where --input_ranges=batch=1:32 says the sizes")
        found[name.strip()] = tuple(int(p) if p.isdigit() else p for p in parts)
    return found


def parse_ranges(texts: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Reads --input_ranges, `name=low:high` each.

    Raises:
        ConvertFlagError: one is none.
    """
    found = {}
    for text in texts:
        match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+)(?::(\d+))?\s*", text)
        low, high = (int(match[2]), int(match[3] or match[2])) if match else (0, -1)
        if match is None or not 1 <= low <= high:
            raise ConvertFlagError(f"--input_ranges={text} is none: write --input_ranges=batch=1:32")
        found[match[1]] = (low, high)
    return found


def parse_buckets(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Reads --buckets, `name=size,...` each.

    Raises:
        ConvertFlagError: one is none.
    """
    found = {}
    for text in texts:
        match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+(?:\s*,\s*\d+)*)\s*", text)
        sizes = tuple(dict.fromkeys(map(int, match[2].split(",")))) if match else ()
        if match is None or 0 in sizes:
            raise ConvertFlagError(f"--buckets={text} is none: write --buckets=batch=1,8,32")
        found[match[1]] = sizes
    return found


def named_dims(signature: Signature, value: Value, asked: Asked) -> Dims:
    """Dimensions of an input, unknown ones by name: "batch" if it is the first, else the input's and its place.

    Raises:
        ConvertError: nothing says the rank, or what is said contradicts the model.
    """
    given = asked.shapes.get(f"{signature.name}/{value.name}", asked.shapes.get(value.name))
    if value.dims is None:
        if given is None:
            raise ConvertError(f"input {value.name} of {signature.name} has an unknown rank: give its shape by "
                               f"--input_shapes={value.name}=...")
        return given
    if given is not None and len(given) != len(value.dims):
        raise ConvertError(f"--input_shapes gives {value.name} {len(given)} dimensions; the model has "
                           f"{len(value.dims)}")
    dims: list[int | str] = []
    for axis, known in enumerate(value.dims):
        said = given[axis] if given is not None else None
        if known is not None and isinstance(said, int) and said != known:
            raise ConvertError(f"--input_shapes gives dimension {axis} of {value.name} as {said}; the model has "
                               f"{known}")
        name = "batch" if axis == 0 else f"{value.name}_{axis}"
        dims.append(known if known is not None else said if said is not None else name)
    return tuple(dims)


def check_names(signatures: Sequence[Signature], asked: Asked) -> None:
    """
    Raises:
        ConvertFlagError: no signature has an input, or a dimension, that is named.
        ConvertError: as named_dims.
    """
    inputs = {name for s in signatures for v in s.inputs for name in (v.name, f"{s.name}/{v.name}")}
    for name in asked.shapes:
        if name not in inputs:
            raise ConvertFlagError(f"--input_shapes names {name}, which is no input; there are "
                                   f"{', '.join(sorted(v.name for s in signatures for v in s.inputs)) or 'none'}")
    if not asked.ranges and not asked.buckets:
        return
    dims = {d for s in signatures for v in s.inputs for d in named_dims(s, v, asked) if isinstance(d, str)}
    for flag, name in [*(("--input_ranges", n) for n in asked.ranges), *(("--buckets", n) for n in asked.buckets)]:
        if name not in dims:
            raise ConvertFlagError(f"{flag} names {name}, which is no unknown dimension of an input; there are "
                                   f"{', '.join(sorted(dims)) or 'none'}")


def shapes_of(signature: Signature, asked: Asked) -> tuple[list[Shapes], list[str]]:
    """Shapes of the inputs that there are to be kernels for, and what is said of others.

    Raises:
        ConvertError: as named_dims.
    """
    dims = {value.name: named_dims(signature, value, asked) for value in signature.inputs}
    names = list(dict.fromkeys(d for shape in dims.values() for d in shape if isinstance(d, str)))
    remarks, sizes = [], []
    for name in names:
        chosen = asked.sizes_of(name)
        if name not in asked.ranges and name not in asked.buckets:
            remarks.append(f"{signature.name}: dimension {name} has kernels for the sizes "
                           f"{', '.join(map(str, chosen))}; --input_ranges={name}=1:32 is another choice")
        elif name not in asked.buckets and len(chosen) < asked.ranges[name][1] - asked.ranges[name][0] + 1:
            remarks.append(f"{signature.name}: dimension {name} has kernels for {len(chosen)} sizes of its range")
        sizes.append(chosen)
    combinations = list(itertools.product(*sizes))
    if len(combinations) > MOST_SHAPES:
        step = len(combinations) / MOST_SHAPES
        remarks.append(f"{signature.name}: kernels for {MOST_SHAPES} of {len(combinations)} combinations of sizes")
        combinations = [combinations[int(i * step)] for i in range(MOST_SHAPES - 1)] + combinations[-1:]
    bound = [dict(zip(names, sizes_, strict=True)) for sizes_ in combinations]
    return [{name: tuple(d if isinstance(d, int) else env[d] for d in shape) for name, shape in dims.items()}
            for env in bound], remarks


def spread(low: int, high: int) -> list[int]:
    """All sizes of a short range; of a long one its ends, and evenly between them those that are multiples of 8, or
    powers of two."""
    if high - low < MOST_OF_A_RANGE:
        return list(range(low, high + 1))
    powers = [1 << k for k in range(high.bit_length()) if low <= 1 << k <= high]
    step = -(-(high - low) // (MOST_OF_A_RANGE // 2) // 8) * 8
    return sorted({low, high, *powers, *range(-(-low // step) * step, high + 1, step)})
