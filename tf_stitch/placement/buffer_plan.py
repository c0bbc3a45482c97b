"""Where the values of a region live."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import InputAttrs, ScatterAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.libraries.call import BoundCall
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.arena import Lifetime
from tf_stitch.placement.executable import BufferRef, Copy
from tf_stitch.placement.executable_format import Space, StateMode
from tf_stitch.placement.known_accesses import KnownAccesses

Work: TypeAlias = LoweredKernel | BoundCall


@dataclass
class BufferPlan:
    """Where values live. `kernels` are the given ones, perhaps in another order, parameters updated in place marked so;
    kernels of one of the `levels` may run at the same time.

    Attributes:
        updated: (output, input): the output's memory holds the input's value before all kernels, and is updated.
        writer: the kernel that writes a node.
        readers: the kernels that have a variable among their arguments, ascending.
        copied: what is copied after all kernels, and to where; `copies` says from where once values are placed.
        reused: values of the arena that are written over another that nobody reads later, and that other.
        arena: bytes of each segment.
        live_bytes: what the arena's values take at one time, at most.
        lives: when each of these values is there, by the first value in its memory.
        accesses: of the kernels to their parameters.
    """

    kernels: list[Work]
    inputs: tuple[str, ...]
    variables: tuple[str, ...]
    place: dict[Node, BufferRef] = field(default_factory=dict)
    state: list[tuple[int, StateMode]] = field(default_factory=list)
    updated: list[tuple[int, int]] = field(default_factory=list)
    copied: list[tuple[BufferRef, Node]] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)  # after all kernels
    levels: list[int] = field(default_factory=list)
    reused: dict[Node, Node] = field(default_factory=dict)
    arena: tuple[int, ...] = ()
    live_bytes: int = 0
    lives: dict[Node, Lifetime] = field(default_factory=dict, repr=False, compare=False)
    writer: dict[Node, int] = field(default_factory=dict)
    readers: dict[str, list[int]] = field(default_factory=dict)
    accesses: KnownAccesses = field(default_factory=KnownAccesses, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._input = {key: i for i, key in enumerate(self.inputs)}
        self._variable = {handle: i for i, handle in enumerate(self.variables)}
        for i, kernel in enumerate(self.kernels):
            for node, mode in kernel.arguments:
                if mode is k.Mode.WRITE:
                    self.writer.setdefault(node, i)
                if isinstance(node.attrs, VariableAttrs):
                    self.readers.setdefault(node.attrs.handle, []).append(i)

    def argument(self, node: Node, mode: k.Mode) -> BufferRef:
        """Where a kernel finds or leaves `node`."""
        if mode is k.Mode.READ and isinstance(node.attrs, InputAttrs):
            return self.place.get(node) or BufferRef(Space.INPUT, self._input[node.attrs.key])
        if mode is k.Mode.READ and isinstance(node.attrs, VariableAttrs):
            return BufferRef(Space.VARIABLE, self._variable[node.attrs.handle])
        return self.place[node]

    @property
    def copying(self) -> list[Node]:
        """Scatters that were to lie where what was there before does, and copy it: somebody reads that later."""
        return [node for node in self.writer if isinstance(node.attrs, ScatterAttrs) and node.attrs.in_place
                and self._memory(node) != self._memory(node.operands[0])]

    def _memory(self, node: Node) -> BufferRef | Node:
        """The place of a value outside of the arena; in it, the first value that lies where it does."""
        while node in self.reused:
            node = self.reused[node]
        outside = node in self.place or node.kind in (OpKind.INPUT, OpKind.VARIABLE)
        return self.argument(node, k.Mode.READ) if outside else node

    @property
    def updating(self) -> frozenset[Node]:
        """Scatters that lie where what was there before does."""
        copying = set(self.copying)
        return frozenset(node for node in self.writer if isinstance(node.attrs, ScatterAttrs) and node.attrs.in_place
                         and node not in copying)

    def reading(self, node: Node) -> list[int]:
        """The kernels that read `node`, ascending."""
        return [i for i, kernel in enumerate(self.kernels) if (node, k.Mode.READ) in kernel.arguments]
