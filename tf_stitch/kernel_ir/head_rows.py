"""Matrices of one head of an attention, as the interpreter's blocks load and store them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.kernel_ir.attention import Rows
from tf_stitch.kernel_ir.tile_statement import TileBlock


def load_head(block: TileBlock, name: str, place: Rows, at: tuple[int, int], count: int, columns: int) -> NDArray[Any]:
    """The matrix [count, columns] at (outer, head)."""
    outer, head = at
    first = place.offset + outer * place.outer + head * place.head
    where = first + place.row * np.arange(count)[:, None] + np.arange(columns)
    return block.load_all(name, where.ravel().tolist()).reshape(where.shape)


def store_row(block: TileBlock, name: str, place: Rows, at: tuple[int, int, int], values: NDArray[Any]) -> None:
    """Stores the row at (outer, head, row)."""
    outer, head, row = at
    first = place.offset + outer * place.outer + head * place.head + row * place.row
    block.store_all(name, range(first, first + len(values)), values)
