"""Which matmuls are computed on zeros added to their rows (transforms/pad_matmuls.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tf_stitch.ir.graph import Node, TensorGraph, collect, users_of
from tf_stitch.ir.matrices import ROW_BYTES, row_bytes
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import CALLED, OpKind
from tf_stitch.ir.strided_view import VIEWS
from tf_stitch.planning.attention_choice import matmuls_of_attentions
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.matmul_sizes import is_large_matmul
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.pattern import Pattern, alone
from tf_stitch.transforms.pad_matmuls import padded

_IN_MEMORY = (OpKind.INPUT, OpKind.VARIABLE)


def matmuls_to_pad(graph: TensorGraph, times: PatternTimes) -> set[Node]:
    """Those matmuls of a graph that a library is faster with where their rows are longer, even if operands have to be
    copied for it. Matmuls of attentions that become kernels stay as they are."""
    nodes = graph.nodes()
    found = {node for node in nodes if _is_candidate(node)}
    if not found:
        return found
    found -= matmuls_of_attentions(graph, times)
    users, wanted = users_of(nodes), set(live_out(graph))
    return {node for node in found if _gains(node, users, wanted, times)}


def _is_candidate(node: Node) -> bool:
    return (isinstance(node.attrs, DotAttrs) and node.type.is_static and bool(node.type.numel)
            and all(o.type.is_static for o in node.operands) and is_large_matmul(node)
            and row_bytes(node) < ROW_BYTES)


def _gains(matmul: Node, users: Mapping[Node, Sequence[Node]], wanted: Collection[Node], times: PatternTimes) -> bool:
    result = padded(matmul)
    dot = result if result.kind is OpKind.DOT else result.operands[0]
    before, after = times.exact(alone(matmul)), times.exact(alone(dot))
    copied = [new for old, new in zip(matmul.operands, dot.operands, strict=True)
              if new is not old and _lies_in_memory(old)]
    cut = result is not dot
    if cut and (matmul in wanted or any(user.category in CALLED or user.kind in VIEWS for user in users[matmul])):
        copied.append(result)
    return before is not None and after is not None and after + sum(_copy_us(x, times) for x in copied) < before


def _lies_in_memory(operand: Node) -> bool:
    """Whether a kernel that adds zeros to it is one more kernel, since it is no result of another that could."""
    while operand.kind in VIEWS:
        operand = operand.operands[0]
    return operand.kind in _IN_MEMORY or operand.category in CALLED


def _copy_us(made: Node, times: PatternTimes) -> float:
    """Microseconds of a kernel that moves a value."""
    nodes: dict[Node, None] = {}
    collect(made, {made.operands[0]}, nodes)
    found = times.exact(Pattern(tuple(nodes), (made,), frozenset()))
    return float("inf") if found is None else found
