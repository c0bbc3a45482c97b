"""Masks of scores [..., queries, keys] that no input decides: which keys behind a query no query sees."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import ConstantAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim

MOST_ELEMENTS, MOST_NODES = 1 << 22, 32
"""Of a mask that is computed to be looked at, and what it is computed by."""


@dataclass(frozen=True)
class CausalMask:
    """The score of each key with a number above that of its query + `ahead` is `value`."""

    ahead: int
    value: float


def causal_mask_of(scores: Node) -> CausalMask | None:
    """What is known of scores [..., queries, keys] without their values: None if no key is masked for a query."""
    while scores.kind is OpKind.CAST and _widens(scores):
        scores = scores.operands[0]
    if scores.kind is not OpKind.SELECT or scores.type.rank < 2:
        return None
    mask, *sides = scores.operands
    for kept, other in ((True, sides[1]), (False, sides[0])):
        value, ahead = constant_of(other), _ahead(mask, kept, scores.type.dims[-2:])
        if value is not None and ahead is not None and ahead < scores.type.dims[-1] - 1:
            return CausalMask(ahead, value)
    return None


def _ahead(mask: Node, kept: bool, positions: tuple[int, ...]) -> int | None:
    """How far behind its query the last key is whose element of the mask is `kept`; None if inputs decide that, or if
    the mask is of other queries and keys than this many: what it says is repeated then."""
    if mask.type.rank < 2 or mask.type.dims[-2:] != positions:
        return None
    if mask.kind is OpKind.LOGICAL_NOT:
        return _ahead(mask.operands[0], not kept, positions)
    if mask.kind is (OpKind.AND if kept else OpKind.OR):
        known = [n for n in (_ahead(operand, kept, positions) for operand in mask.operands) if n is not None]
        return min(known, default=None)
    if mask.kind in (OpKind.BROADCAST, OpKind.RESHAPE) and mask.operands[0].type.dims[-2:] == positions:
        return _ahead(mask.operands[0], kept, positions)
    return _computed_ahead(mask, kept)


@lru_cache(maxsize=64)
def _computed_ahead(mask: Node, kept: bool) -> int | None:
    values = _computed(mask)
    if values is None:
        return None
    queries, keys = np.nonzero((values == kept).reshape(-1, *values.shape[-2:]).any(axis=0))
    return int((keys - queries).max(initial=-values.shape[-2]))


def is_triangle(mask: Node, kept: bool) -> bool:
    """Whether elements [..., queries, keys] of a mask are `kept` for keys up to the query's number, and for no others,
    whatever the inputs are."""
    while mask.kind is OpKind.LOGICAL_NOT or (mask.kind in (OpKind.BROADCAST, OpKind.RESHAPE)
                                              and mask.operands[0].type.dims[-2:] == mask.type.dims[-2:]):
        kept = kept != (mask.kind is OpKind.LOGICAL_NOT)
        mask = mask.operands[0]
    return mask.type.rank > 1 and _computed_triangle(mask, kept)


@lru_cache(maxsize=64)
def _computed_triangle(mask: Node, kept: bool) -> bool:
    values = _computed(mask)
    return values is not None and bool(((values == kept) == (np.tri(*values.shape[-2:]) > 0)).all())


def _computed(mask: Node) -> NDArray[Any] | None:
    """The mask's elements; None if inputs decide them, or too much would have to be computed."""
    graph = TensorGraph("mask", [("mask", mask)])
    nodes = graph.nodes()
    inputs = any(node.category is Category.SOURCE and node.kind not in (OpKind.CONSTANT, OpKind.IOTA, OpKind.EXTENT)
                 for node in nodes)
    if inputs or len(nodes) > MOST_NODES or any(map(_changes, nodes)) or \
            max(node.type.numel for node in nodes) > MOST_ELEMENTS:
        return None
    return interpret(graph, {})["mask"]


def _changes(node: Node) -> bool:
    """Whether its shape, or an attribute, is a size that changes from run to run."""
    numbers = (getattr(node.attrs, f.name) for f in fields(node.attrs))
    return any(isinstance(n, SymbolicDim) for tuple_ in (node.type.shape, *numbers) if isinstance(tuple_, tuple)
               for n in tuple_)


def _widens(cast: Node) -> bool:
    """Whether a cast of floats keeps each value."""
    given = cast.operands[0].type.dtype
    return given.is_float and cast.type.dtype.is_float and given.size < cast.type.dtype.size


def constant_of(node: Node) -> float | None:
    """The value of all elements, if they are constant and the same."""
    while node.kind in (OpKind.BROADCAST, OpKind.RESHAPE):
        node = node.operands[0]
    if isinstance(node.attrs, ConstantAttrs) and node.type.numel == 1 and node.type.dtype.is_float:
        return float(node.attrs.value.item())
    return None
