"""What one call of a library of convolutions computes: a convolution, and what may follow it before the result is
stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tf_stitch.ir.activations import Activation, activation_of
from tf_stitch.ir.epilogue import WithEpilogue
from tf_stitch.ir.graph import Node, users_of, view_of
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import NO_MEMORY, OpKind

_AXES = 2


@dataclass(frozen=True)
class FusedConvolution(WithEpilogue):
    """activation(convolution + addend + bias), the sums in any order.

    Attributes:
        nodes: from the convolution, or a gradient of one, to the result, operands first.
        bias: a number for each channel.
        addend: of the result's shape.
    """

    nodes: tuple[Node, ...]
    bias: Node | None = None
    addend: Node | None = None
    activation: Activation = Activation.NONE

    @property
    def has_kernels(self) -> bool:
        """Whether it is alone, or cuDNN is known to have kernels for it that it need not compile first
        (docs/decisions/convolutions.md): for a bias, and a rectifier behind it or not; for an addend, a bias and a
        rectifier."""
        rectified = self.activation is Activation.RELU
        return len(self.nodes) == 1 or (self.bias is not None and (self.addend is None or rectified))

    @property
    def convolution(self) -> Node:
        return self.nodes[0]


def fused_convolutions(convolution: Node, users: dict[Node, list[Node]], wanted: frozenset[Node]
                       ) -> Iterator[FusedConvolution]:
    """What the library can compute in one call beyond a static convolution, each with all of the one before it.

    Args:
        users: of every node.
        wanted: nodes whose values are needed by themselves.
    """
    attrs = convolution.attrs
    if convolution.kind is not OpKind.CONVOLUTION or not isinstance(attrs, ConvolutionAttrs) or attrs.groups > 1 or \
            len(attrs.strides) != _AXES:
        return
    larger = _extended(FusedConvolution((convolution,)), users, wanted)
    while larger is not None:
        if larger.has_kernels:
            yield larger
        larger = _extended(larger, users, wanted)


def as_fused_convolution(nodes: Sequence[Node]) -> FusedConvolution | None:
    """These nodes (operands first, with all views between them) as one call, None if they are not."""
    if len(nodes) == 1:
        return FusedConvolution((nodes[0],))
    members = set(nodes)
    found = fused_convolutions(nodes[0], users_of(nodes), frozenset())
    return next((f for f in found if set(f.nodes) == members), None)


def is_of_channels(operand: Node, value: Node) -> bool:
    """Whether an operand has one number for each channel of a value, which lie last, and no others."""
    channels = value.type.dims[-1]
    return operand.type.dims[-1:] == (channels,) and operand.type.numel == channels


def _extended(call: FusedConvolution, users: dict[Node, list[Node]], wanted: frozenset[Node]
              ) -> FusedConvolution | None:
    if call.result in wanted or call.activation is not Activation.NONE:
        return None
    found = activation_of(call.result, users, wanted, (Activation.RELU,)) if call.bias is not None else None
    if found is not None:
        activation, nodes = found
        return replace(call, nodes=(*call.nodes, *nodes), activation=activation)
    following = users.get(call.result, [])
    if len(following) != 1:
        return None
    [user] = following
    if user.kind is OpKind.RESHAPE and user.type.dims[-1:] == call.convolution.type.dims[-1:]:
        return replace(call, nodes=(*call.nodes, user))
    return _with_sum(call, user) if user.kind is OpKind.ADD else None


def _with_sum(call: FusedConvolution, add: Node) -> FusedConvolution | None:
    value = call.result
    other = add.operands[1] if add.operands[0] is value else add.operands[0]
    if other is value or add.type != value.type or view_of(other).kind in NO_MEMORY:
        return None
    if call.bias is None and is_of_channels(other, value):
        return replace(call, nodes=(*call.nodes, add), bias=other)
    if call.addend is None and other.type == value.type:
        return replace(call, nodes=(*call.nodes, add), addend=other)
    return None
