"""The scale of an inferred batch norm goes into the filters, and its shift into the bias: what is left behind the
convolution or matmul is a bias, which a library's call adds by the way. scale (x w + b) + s is x (scale w) + (scale b
+ s); neither rounds more often than the other, but for scaling the filters. Source: TensorFlow's grappler does so for
constants (constant_folding.cc, MulConvPushDown), PyTorch's fuse_conv_bn_weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_convolutions import is_of_channels
from tf_stitch.ir.graph import Node, TensorGraph, with_operands
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import PassResult

_STEPS = (OpKind.ADD, OpKind.SUB, OpKind.MUL)


@dataclass(frozen=True)
class ScaledResult:
    """A convolution or matmul, and what a number for each channel does to its result.

    Attributes:
        root: the convolution or matmul, static.
        nodes: sums, differences and multiplications with numbers for each channel, the last of which is the last;
            reshapes between; and behind these perhaps a sum with a value of its own shape, for TensorFlow's optimizer
            adds what is smaller later.
    """

    root: Node
    nodes: tuple[Node, ...]

    @property
    def result(self) -> Node:
        return self.nodes[-1]


@dataclass(frozen=True)
class ScalesIntoFilters:
    """Rewrites scaled results.

    Attributes:
        chosen: which of a graph's.
    """

    chosen: Callable[[TensorGraph], Collection[ScaledResult]]
    name: str = "scales_into_filters"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        chosen = {scaled.result: scaled for scaled in self.chosen(graph)}
        if not chosen:
            return PassResult(graph, modified=False)
        new: dict[Node, Node] = {}
        for node in graph.nodes():
            new[node] = _rewritten(chosen[node], new) if node in chosen else \
                with_operands(node, tuple(new[o] for o in node.operands))
        return PassResult(TensorGraph(graph.name, [(k, new[n]) for k, n in graph.outputs]), modified=True)


def scaled_result(root: Node, users: Mapping[Node, list[Node]], wanted: Collection[Node]) -> ScaledResult | None:
    """What becomes of the result of `root`, if it is scaled and nothing else reads it before.

    Args:
        users: of every node.
        wanted: nodes whose values are needed by themselves.
    """
    if not _has_filters(root):
        return None
    nodes, value, ends, added = [root], root, 0, False
    while value not in wanted and len(users[value]) == 1:
        [value], before = users[value], value
        if value.kind is OpKind.RESHAPE and value.type.dims[-1:] == root.type.dims[-1:]:
            pass
        elif value.kind not in _STEPS or value.type != before.type or operand_of(value, before) is before:
            break
        elif is_of_channels(operand_of(value, before), before):
            if (value.kind is OpKind.MUL and added) or (value.kind is OpKind.SUB and value.operands[0] is not before):
                break
            ends = len(nodes)
        elif value.kind is OpKind.ADD and operand_of(value, before).type == value.type and not added:
            added = True
        else:
            break
        nodes.append(value)
    found = tuple(nodes[1:ends + 1])
    return ScaledResult(root, found) if any(n.kind is OpKind.MUL for n in found) else None


def operand_of(step: Node, value: Node) -> Node:
    """What a step combines a value with."""
    return step.operands[1] if step.operands[0] is value else step.operands[0]


def scaled_filters(root: Node, scale: Node) -> Node:
    """The filters of a convolution, or the second matrix of a matmul, times a number for each channel of the result."""
    filters = root.operands[1]
    channels = 1 if isinstance(root.attrs, DotAttrs) and not root.attrs.transpose_b else 0
    shape = tuple(d if axis == channels else 1 for axis, d in enumerate(filters.type.dims))
    b = Builder(root.loc)
    return b.mul(filters, b.reshape(scale, shape))


def _has_filters(root: Node) -> bool:
    """Whether it is a convolution or one matmul in float32: halves would be rounded once more."""
    matmul = root.kind is OpKind.DOT and root.type.rank == 2
    return (matmul or root.kind is OpKind.CONVOLUTION) and root.type.is_static and root.type.dtype is DType.F32


def _rewritten(scaled: ScaledResult, new: Mapping[Node, Node]) -> Node:
    """The result anew.

    Args:
        new: of every node before it.
    """
    root, result = scaled.root, scaled.result
    b, channels = Builder(result.loc), root.type.dims[-1]
    scale: Node | None = None
    shift: Node | None = None
    addend: Node | None = None
    before = root
    for step in scaled.nodes:
        if step.kind is not OpKind.RESHAPE and not is_of_channels(operand_of(step, before), before):
            addend = b.reshape(new[operand_of(step, before)], result.type.dims)
        elif step.kind is not OpKind.RESHAPE:
            operand = b.reshape(new[operand_of(step, before)], (channels,))
            if step.kind is OpKind.MUL:
                scale = operand if scale is None else b.mul(scale, operand)
                shift = shift and b.mul(shift, operand)
            elif step.kind is OpKind.ADD:
                shift = operand if shift is None else b.add(shift, operand)
            else:
                shift = b.neg(operand) if shift is None else b.sub(shift, operand)
        before = step
    assert scale is not None, "what is not scaled is not chosen"
    image, filters = (new[operand] for operand in root.operands)
    value = with_operands(root, (image, scaled_filters(with_operands(root, (image, filters)), scale)))
    value = b.reshape(value, result.type.dims)
    if shift is not None:
        value = b.add(value, b.reshape(shift, (*(1,) * (result.type.rank - 1), channels)))
    return value if addend is None else b.add(value, addend)
