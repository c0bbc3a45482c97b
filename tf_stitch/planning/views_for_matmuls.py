"""Views that need no memory of their own, since matmuls alone read them, as they lie in what they are views of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.strided_view import VIEWS, path_to
from tf_stitch.libraries.call import Library

Reader = tuple[Node, Library]
"""A matmul, and the library that computes it."""


def views_for_matmuls(readers: Sequence[Reader], nodes: Sequence[Node], users: Mapping[Node, Sequence[Node]],
                      in_memory: Callable[[Node], bool], nowhere: Collection[Node]) -> set[Node]:
    """The transposes and slices that only these matmuls read, in a way that their libraries can, and reshapes beside
    them.

    Args:
        nodes: operands first.
        in_memory: whether memory has to hold a value in any case.
        nowhere: what no memory holds, such as constants.
    """
    matmuls = {matmul for matmul, _ in readers}
    stored = {node for node in nodes if node.kind in VIEWS and in_memory(node)}
    while True:
        views = _read_by(matmuls, nodes, users, stored)
        paths = [(library, path) for matmul, library in readers for operand in matmul.operands
                 if (path := _path_to(operand, views, stored))]
        more = set(filter(None, (_first_stored(path, library, nowhere) for library, path in paths)))
        if not more:
            return {view for _, path in paths for view in path}
        stored |= more


def _read_by(matmuls: Collection[Node], nodes: Sequence[Node], users: Mapping[Node, Sequence[Node]],
             stored: Collection[Node]) -> set[Node]:
    """Views that are not stored, and that nobody but matmuls reads, through such views."""
    found: set[Node] = set()
    for node in reversed(nodes):
        if node.kind in VIEWS and node not in stored and users[node] and all(
                user in found or user in matmuls for user in users[node]):
            found.add(node)
    return found


def _path_to(operand: Node, views: Collection[Node], stored: Collection[Node]) -> list[Node]:
    """The views that lead to an operand from what lies in memory. A reshape may have other readers."""
    return path_to(operand, lambda node: node not in views and (node.kind is not OpKind.RESHAPE or node in stored))


def _first_stored(path: Sequence[Node], library: Library, nowhere: Collection[Node]) -> Node | None:
    """The first view of a path from which on the library reads what follows, which has to be stored then; None if it
    is the value before the path."""
    starts: Iterator[int] = (i + 1 for i, view in enumerate(path) if view.kind is not OpKind.RESHAPE)
    if path[0].operands[0] not in nowhere and library.reads(path):
        return None
    return next((path[start - 1] for start in starts if start == len(path) or library.reads(path[start:])), None)
