"""Elements of tiles as the interpreter computes, loads and stores them: by a block's threads, as many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.kernel_ir.attention import Rows
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.statement import Statement
from tf_stitch.kernel_ir.tile_statement import TileBlock

Places: TypeAlias = Sequence[Sequence[int]]
"""Values of a body's variables, for each element."""


def elementwise(block: TileBlock, body: Sequence[Statement], variables: Sequence[Var], places: Places,
                given: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """What a body makes of scalars, of which there is one for each place: arrays shaped as those given."""
    made = [values.flatten() for values in given.values()]
    for elements in _rounds(block, variables, places) if body else ():
        for t, i in enumerate(elements):
            block.scalars[t] |= {name: values[i] for name, values in zip(given, made, strict=True)}
        block.run_body(body, list(range(len(elements))))
        for t, i in enumerate(elements):
            for name, values in zip(given, made, strict=True):
                values[i] = block.scalars[t][name]
    return [values.reshape(like.shape) for values, like in zip(made, given.values(), strict=True)]


def on_vectors(block: TileBlock, body: Sequence[Statement], variables: Sequence[Var], places: Places, array: str,
               size: int, given: Sequence[Mapping[int, Any]]) -> list[list[Any]]:
    """What a body leaves in an array of that size, one at each place.

    Args:
        given: elements that it has before.
    """
    block.sizes[array] = size
    left: list[list[Any]] = []
    for elements in _rounds(block, variables, places):
        for t, i in enumerate(elements):
            block.arrays[t][array] = dict(given[i])
        block.run_body(body, list(range(len(elements))))
        for t, _ in enumerate(elements):
            values = block.arrays[t][array]
            left.append([values[i] for i in sorted(values)])
    return left


def _rounds(block: TileBlock, variables: Sequence[Var], places: Places) -> Iterator[range]:
    """Numbers of the elements that threads 0, 1, ... have together, whose variables are set."""
    for first in range(0, len(places), block.threads):
        elements = range(first, min(first + block.threads, len(places)))
        for t, i in enumerate(elements):
            block.indices[t] |= {v.name: value for v, value in zip(variables, places[i], strict=True)}
        yield elements


def load_matrix(block: TileBlock, name: str, at: NDArray[Any]) -> NDArray[Any]:
    """The elements of a buffer at these indices."""
    return block.load_all(name, at.ravel().tolist()).reshape(at.shape)


def load_head(block: TileBlock, name: str, place: Rows, at: tuple[int, int], count: int, columns: int) -> NDArray[Any]:
    """The matrix [count, columns] of the head at (outer, head)."""
    outer, head = at
    first = place.offset + outer * place.outer + head * place.head
    return load_matrix(block, name, first + place.row * np.arange(count)[:, None] + np.arange(columns))


def store_row(block: TileBlock, name: str, place: Rows, at: tuple[int, int, int], values: NDArray[Any]) -> None:
    """Stores the row at (outer, head, row)."""
    outer, head, row = at
    first = place.offset + outer * place.outer + head * place.head + row * place.row
    block.store_all(name, range(first, first + len(values)), values)
