"""Which shapes of a converted model have kernels, in lines and as data, and what to tell a server that batches."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.convert.inputs import Case
from tf_stitch.convert.saved_model import Signature

BuiltSizes = dict[str, list[dict[str, list[int]]]]
"""Signature -> the shapes that have kernels, by input."""
MOST_SAID = 8
"""Shapes in a line; the report and the manifest have all."""


def built_sizes(cases: Sequence[Case]) -> BuiltSizes:
    """The shapes of the cases, in their order, each once."""
    found: BuiltSizes = {}
    for case in cases:
        shapes = {name: list(shape) for name, shape in sorted(case.shapes.items())}
        known = found.setdefault(case.signature, [])
        if shapes not in known:
            known.append(shapes)
    return found


def batch_sizes(signature: Signature, shapes: Sequence[dict[str, list[int]]]) -> list[int]:
    """The first dimensions that have kernels, of inputs whose first dimension is open."""
    batched = [v.name for v in signature.inputs if v.dims is None or (v.dims and v.dims[0] is None)]
    return sorted({one[name][0] for one in shapes for name in batched if one[name]})


def size_lines(signatures: Sequence[Signature], sizes: BuiltSizes) -> list[str]:
    """What is printed: the shapes of each signature; then what its batching parameters should be (the text format of
    TensorFlow Serving's BatchingParameters)."""
    lines = []
    for signature in signatures:
        shapes = sizes.get(signature.name, [])
        said = "; ".join(" ".join(f"{name}{_text(dims)}" for name, dims in one.items()) for one in shapes[:MOST_SAID])
        more = f"; and {len(shapes) - MOST_SAID} more" if len(shapes) > MOST_SAID else ""
        lines.append(f"{signature.name} has kernels for {len(shapes)} shape{'s' * (len(shapes) != 1)}: {said}{more}")
        batches = batch_sizes(signature, shapes)
        if batches:
            lines.append(f"{signature.name}, in a server that batches: max_batch_size {{ value: {batches[-1]} }} "
                         f"allowed_batch_sizes: [{', '.join(map(str, batches))}]")
    return lines


def _text(dims: Sequence[int]) -> str:
    return f"[{','.join(map(str, dims))}]"
