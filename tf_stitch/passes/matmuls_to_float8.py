"""Matmuls of dequantised float8 become matmuls of the float8, by their scales (ir/float8_matmuls.py)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

from tf_stitch.device.profile import interpolate
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.float8_matmuls import Float8Matmul, as_float8, find_float8_matmul
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.context import PassContext
from tf_stitch.passes.rewriter import replace_chosen
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.matmul_sizes import is_large_matmul
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.pattern import alone


@dataclass(frozen=True)
class MatmulsToFloat8:
    """Replaces matmuls.

    Attributes:
        chosen: which of a graph, of those that are found to be of float8.
    """

    chosen: Callable[[TensorGraph], Collection[Node]]
    name: str = "matmuls_to_float8"

    @classmethod
    def where_faster(cls, context: PassContext) -> MatmulsToFloat8:
        """Replaces the matmuls that a library computes faster in float8."""
        return cls(partial(matmuls_of_float8, context=context))

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return replace_chosen(graph, self.chosen(graph), _replaced)


def _replaced(matmul: Node) -> Node:
    found = find_float8_matmul(matmul)
    assert found is not None, "what its operands are made of was replaced by something else"
    return as_float8(found)


UNIT = 16
"""Of which rows, columns and terms have to be multiples, and addresses in bytes: others have no kernel."""


def matmuls_of_float8(graph: TensorGraph, context: PassContext) -> set[Node]:
    """Matmuls that take less time in float8, each alone, even if kernels have to transpose their operands first, make
    scales of floats, and write float8 beside the half types that others read. Addresses have to be aligned."""
    device, times, least_us = context.device, context.times, context.device.profile.choices.float8_us
    if not device.float8_matmuls or not context.aligned:
        return set()
    nodes = graph.nodes()
    found = {node: one for node in nodes if is_large_matmul(node) and (one := find_float8_matmul(node)) is not None
             and all(size % UNIT == 0 for size in (*node.type.dims, *node.operands[0].type.dims))}
    gains = {node: _gain(one, times) for node, one in found.items()}
    chosen = {node for node, gain in gains.items() if gain >= least_us}
    users, wanted = users_of(nodes), set(live_out(graph))
    while True:  # one that is not chosen reads halves, which are then written for it
        kept = {node for node in chosen
                if gains[node] - _written_us(found[node], chosen, users, wanted, device) >= least_us}
        if kept == chosen:
            return kept
        chosen = kept


def _gain(found: Float8Matmul, times: PatternTimes) -> float:
    """Microseconds saved, were its operands read by nobody else."""
    made = as_float8(found)
    before, after = times.exact(alone(found.matmul)), times.exact(alone(made))
    if before is None or after is None:
        return 0.0
    kernels = [*(node for operand in made.operands[:2] for node in _transposes(operand)),
               *(scale for scale in made.operands[2:] if scale.category is Category.ELEMENTWISE)]
    added = [times.exact(alone(node)) for node in kernels]
    return before - after - sum(float("inf") if us is None else us for us in added)


def _transposes(operand: Node) -> Iterator[Node]:
    while operand.kind in (OpKind.RESHAPE, OpKind.TRANSPOSE):
        if operand.kind is OpKind.TRANSPOSE:
            yield operand
        operand = operand.operands[0]


def _written_us(found: Float8Matmul, chosen: Collection[Node], users: dict[Node, list[Node]], wanted: Collection[Node],
                device: DeviceSpec) -> float:
    """Microseconds of writing float8 beside halves, where others read these."""
    total = 0.0
    for operand in found.matmul.operands:
        if operand in wanted or any(user not in chosen for user in users[operand]):
            nbytes = operand.type.numel
            total += 1e-3 * nbytes / interpolate(device.profile.bandwidth, nbytes)
    return total
