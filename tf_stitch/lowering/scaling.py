"""Where a kernel makes float8 of halves, or halves of float8, and rounds to halves on the way as TensorFlow does."""

from __future__ import annotations

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.pattern import Pattern

CHOOSES = frozenset({OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.SELECT, OpKind.NEG, OpKind.ABS})
"""Ops whose results are halves where their operands are."""


def rounded_for_float8(pattern: Pattern) -> frozenset[Node]:
    """Nodes that round more than others: those that scale halves right before these are cast to a float8, clipped or
    moved in between, and right after, round their operands; casts of floats to halves that become float8 round their
    results.

    A quotient in bfloat16 lies halfway between two numbers of e4m3fn once in 16 times. If the number or the scale is
    not the half that TensorFlow has, an element in fifty becomes another float8, an eighth larger or smaller.
    """
    found: set[Node] = set()
    for node in pattern.nodes:
        if node.kind is OpKind.CAST and node.type.dtype.is_float8:
            found |= _above(node, pattern)
        elif _computes_half(node) and any(map(_was_float8, node.operands)):
            found.add(node)
    scaled = {source for node in found if _computes_half(node) for source in map(_moved, node.operands)}
    return frozenset(found | {source for source in scaled if _is_narrowed(source) and pattern.holds(source)})


def is_rounding(node: Node) -> bool:
    """Whether it takes a computed value for what its element type has of it, as if that had come from memory."""
    return node.kind is OpKind.CAST and node.operands[0].type.dtype is node.type.dtype


def is_of_float8(node: Node) -> bool:
    """Whether it makes a number of a float8, which is a float32 up to there."""
    return node.kind is OpKind.CAST and node.operands[0].type.dtype.is_float8


def _above(cast: Node, pattern: Pattern) -> set[Node]:
    """The nodes that scale what becomes a float8, and the casts that it comes from."""
    found: set[Node] = set()
    seen: set[tuple[Node, bool]] = set()
    waiting = [(operand, True) for operand in cast.operands]  # True: not scaled yet, on the way up
    while waiting:
        node, unscaled = waiting.pop()
        if (node, unscaled) in seen or not _is_half(node) or not pattern.holds(node):
            continue
        seen.add((node, unscaled))
        if _is_narrowed(node):
            found.add(node)
        elif node.category is Category.MOVEMENT or node.kind in CHOOSES:
            waiting += [(operand, unscaled) for operand in node.operands]
        elif _computes_half(node):
            if unscaled:
                found.add(node)
            waiting += [(operand, False) for operand in node.operands]
    return found


def _is_narrowed(node: Node) -> bool:
    """Whether it is a half that a wider float is cast to."""
    return node.kind is OpKind.CAST and _is_half(node) and node.operands[0].type.dtype.is_float


def _was_float8(node: Node) -> bool:
    return is_of_float8(_moved(node))


def _moved(node: Node) -> Node:
    """What is moved to a value."""
    while node.category is Category.MOVEMENT and node.operands:
        node = node.operands[0]
    return node


def _computes_half(node: Node) -> bool:
    return _is_half(node) and node.category is Category.ELEMENTWISE and node.kind is not OpKind.CAST


def _is_half(node: Node) -> bool:
    return node.type.dtype.is_float and node.type.dtype.is_narrow
