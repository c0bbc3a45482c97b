"""Kernels that do no more than transpose what a convolution reads or gives: filters as the library reads them, and
images, which channels last should leave none of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.ir.graph import Node, users_of, view_of
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.pattern import Pattern

_MOVEMENT = (Category.MOVEMENT, Category.SOURCE)


@dataclass(frozen=True)
class ConvolutionTransposes:
    """What stands beside the convolutions of a region, those that became matmuls and sums among them. A transpose in a
    kernel that computes something, too, as a cast of filters, is none.

    Attributes:
        convolutions: nodes of TensorFlow's.
        filters: kernels that transpose filters for a library's call, or back.
        images: kernels that transpose anything else beside a convolution.
    """

    convolutions: int = 0
    filters: int = 0
    images: int = 0

    def __str__(self) -> str:
        if not self.filters and not self.images:
            return f"{self.convolutions} convolutions, no transpose beside them"
        return (f"{self.convolutions} convolutions, transposes beside them: {self.filters or 'none'} of filters for "
                f"the library, {self.images or 'none'} of images")


def transposes_beside_convolutions(compiled: CompiledRegion) -> ConvolutionTransposes:
    """Counts kernels whose only work is movement, a transpose among it."""
    nodes = compiled.plan.graph.nodes()
    users = users_of(nodes)
    found = [_beside(kernel.schedule.pattern, users) for kernel in compiled.kernels
             if _is_transpose(kernel.schedule.pattern)]
    return ConvolutionTransposes(len({n.loc.node for n in nodes if _is_convolution(n)}),
                                 sum(beside == {True} for beside in found), sum(False in beside for beside in found))


def _is_convolution(node: Node) -> bool:
    return "Conv" in node.loc.op and node.category not in _MOVEMENT


def _is_transpose(pattern: Pattern) -> bool:
    return all(node.category in _MOVEMENT and node.kind is not OpKind.GATHER for node in pattern.nodes) and any(
        node.kind is OpKind.TRANSPOSE for node in pattern.nodes)


def _beside(pattern: Pattern, users: dict[Node, list[Node]]) -> set[bool]:
    """Of each value that a convolution gives it or reads of it, whether these are filters of a library's call."""
    given = {view_of(operand) for node in pattern.nodes for operand in node.operands if operand not in pattern.nodes}
    found = {node.kind is OpKind.CONVOLUTION_FILTER_GRAD for node in given if _is_convolution(node)}
    return found.union(*(_read_as_filters(output, users) for output in pattern.outputs))


def _read_as_filters(value: Node, users: dict[Node, list[Node]]) -> Iterator[bool]:
    for user in users[value]:
        if user.kind is OpKind.RESHAPE:
            yield from _read_as_filters(user, users)
        elif _is_convolution(user):
            yield (user.kind in (OpKind.CONVOLUTION, OpKind.CONVOLUTION_INPUT_GRAD)
                   and user.operands.index(value) == 1)
