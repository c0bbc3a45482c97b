"""A kernel lowered for one pattern, for another of equal structure (F13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_stitch.ir.graph import Node, make_node
from tf_stitch.ir.text_format import structural_key
from tf_stitch.lowering.kernel import LoweredKernel, title
from tf_stitch.planning.pattern import Pattern


def structure(pattern: Pattern) -> tuple[str, list[Node]]:
    """Text equal for patterns that are lowered alike, and the nodes that correspond then, in order."""
    inside, outside = nodes_of(pattern)
    return structural_key(inside, pattern.outputs), [*inside, *outside]


def nodes_of(pattern: Pattern) -> tuple[list[Node], list[Node]]:
    """The nodes that a kernel of the pattern computes, operands first, and those outside whose values it takes."""
    inside = _with_free(pattern)
    members = set(inside)
    return inside, list(dict.fromkeys(o for n in inside for o in n.operands if o not in members))


def rebind(kernel: LoweredKernel, old: Sequence[Node], new: Sequence[Node], pattern: Pattern) -> LoweredKernel:
    """The kernel of `pattern`.

    Args:
        old, new: nodes of the pattern the kernel was lowered for, and of `pattern`, as `structure` gives them.
    """
    node = dict(zip(old, new, strict=True))
    schedule = kernel.schedule
    schedule = replace(schedule, pattern=pattern, dominant=node[schedule.dominant],
                       staged=tuple(replace(s, node=node[s.node]) for s in schedule.staged),
                       schemes={node[n]: scheme for n, scheme in schedule.schemes.items()})
    before = kernel.schedule.pattern
    noted = {before.name(a): pattern.name(b) for a, b in zip(old, new, strict=True) if before.name(a)}
    return LoweredKernel(schedule, replace(kernel.program, title=title(pattern), noted=noted),
                         tuple((node.get(n) or _copy(n), mode) for n, mode in kernel.arguments))


def _copy(scratch: Node) -> Node:
    """Memory of another kernel's own (see BufferTable.scratch)."""
    return make_node(scratch.kind, scratch.operands, scratch.attrs, scratch.loc)


def _with_free(pattern: Pattern) -> list[Node]:
    """The pattern's nodes and the free nodes they compute themselves, operands first."""
    order: dict[Node, None] = {}

    def visit(node: Node) -> None:
        for operand in node.operands:
            if operand in pattern.free and operand not in order:
                visit(operand)
        order[node] = None

    for node in pattern.nodes:
        visit(node)
    return list(order)
