"""Which scales of results go into filters (transforms/scales_into_filters.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tf_stitch.ir.activations import Activation, activation_of
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_kinds import CALLED, OpKind
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import library_of
from tf_stitch.planning.free_nodes import free_nodes, live_out
from tf_stitch.planning.matmul_sizes import is_large
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.pattern import Pattern, make_pattern
from tf_stitch.transforms.scales_into_filters import ScaledResult, operand_of, scaled_filters, scaled_result

WORTH_US = 3.0
"""What the kernel behind a call takes at least, beyond scaling the filters: launches that a graph overlaps are
predicted too long, and matmuls take longer with a bias. ResNet-50's inference on an H200, all scales in filters, those
of convolutions alone, none: one image 0.636, 0.614 and 0.603 ms, 32 images 2.30, 2.48 and 2.53."""
_IN_MEMORY = (OpKind.INPUT, OpKind.VARIABLE)


def scales_to_move(graph: TensorGraph, libraries: Sequence[Library], times: PatternTimes) -> list[ScaledResult]:
    """Those without which no kernel is left behind a library's call, where that kernel takes more time than one that
    scales the filters.

    Args:
        libraries: of the device.
    """
    nodes = graph.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    found = [scaled for node in nodes if is_large(node) and _has_epilogues(node, libraries)
             and (scaled := scaled_result(node, users, wanted)) is not None]
    if not found:
        return []
    free = free_nodes(nodes)
    return [scaled for scaled in found if _gains(scaled, users, wanted, free, times)]


def _has_epilogues(root: Node, libraries: Sequence[Library]) -> bool:
    library = library_of(root, libraries)
    return library is not None and root.type.dtype in library.epilogue_types


def _gains(scaled: ScaledResult, users: dict[Node, list[Node]], wanted: frozenset[Node], free: frozenset[Node],
           times: PatternTimes) -> bool:
    summed = any(n.kind is OpKind.ADD and all(o.type == n.type for o in n.operands) for n in scaled.nodes)
    behind = [*scaled.nodes, *_then(scaled.result, summed, users, wanted)]
    if not _is_read_by_calls(behind[-1], users, wanted):
        return False
    kernel = times.exact(make_pattern((n for n in behind if n not in free), users, wanted, free))
    return kernel is not None and _filters_us(scaled.root, times) + WORTH_US < kernel


def _then(value: Node, summed: bool, users: dict[Node, list[Node]], wanted: frozenset[Node]) -> Iterator[Node]:
    """What else a call computes behind a bias: a sum with a value of its shape, if it has none yet, a rectifier."""
    while value not in wanted:
        activation = activation_of(value, users, wanted, (Activation.RELU,))
        if activation is not None:
            yield from activation[1]
            return
        if len(users[value]) != 1:
            return
        [user] = users[value]
        is_sum = not summed and user.kind is OpKind.ADD and operand_of(user, value).type == value.type == user.type
        if not is_sum and user.kind is not OpKind.RESHAPE:
            return
        summed = summed or is_sum
        value = user
        yield user


def _is_read_by_calls(value: Node, users: dict[Node, list[Node]], wanted: Collection[Node]) -> bool:
    """Whether a value lies in memory in any case: kernels that alone read it would compute it themselves."""
    return value in wanted or any(user.category in CALLED or (
        user.kind is OpKind.RESHAPE and _is_read_by_calls(user, users, wanted)) for user in users[value])


def _filters_us(root: Node, times: PatternTimes) -> float:
    """Microseconds of scaling filters: nothing where a kernel makes them anyway."""
    filters = root.operands[1]
    views = (OpKind.RESHAPE, OpKind.TRANSPOSE) if root.kind is OpKind.DOT else (OpKind.RESHAPE,)
    source = filters
    while source.kind in views:
        source = source.operands[0]
    if source.kind not in _IN_MEMORY and source.category not in CALLED:
        return 0.0
    b = Builder(root.loc)
    scaled = scaled_filters(root, b.input("scale", root.type.dtype, root.type.dims[-1:]))
    taken = times.exact(Pattern((scaled,), (scaled,), frozenset(scaled.operands)))
    return float("inf") if taken is None else taken
