"""The scale of an inferred batch norm goes into the filters, and its shift into the bias: what is left behind the
convolution or matmul is a bias, which a library's call adds by the way. scale (x w + b) + s is x (scale w) + (scale b
+ s); neither rounds more often than the other, but for scaling the filters. Source: TensorFlow's grappler does so for
constants (constant_folding.cc, MulConvPushDown), PyTorch's fuse_conv_bn_weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tf_stitch.ir.activations import Activation, activation_of
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_convolutions import is_of_channels
from tf_stitch.ir.graph import Node, TensorGraph, users_of, with_operands
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import CALLED, OpKind
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import library_of
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.context import PassContext
from tf_stitch.planning.free_nodes import free_nodes, live_out
from tf_stitch.planning.matmul_sizes import is_large
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.pattern import Pattern, make_pattern

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

    @classmethod
    def where_faster(cls, context: PassContext) -> ScalesIntoFilters:
        """Moves the scales without which no kernel is left behind a library's call."""
        return cls(partial(scales_to_move, libraries=context.libraries, times=context.times))

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
    """The new result.

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


_IN_MEMORY = (OpKind.INPUT, OpKind.VARIABLE)


def scales_to_move(graph: TensorGraph, libraries: Sequence[Library], times: PatternTimes) -> list[ScaledResult]:
    """Scales whose removal leaves no kernel behind a library's call, where that kernel takes more time than one that
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
    return kernel is not None and _filters_us(scaled.root, times) + times.profile.choices.scale_us < kernel


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
