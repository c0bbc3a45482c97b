"""Cuts the tensor graph of a region out of an imported graph: inputs where values come in, variables followed from
their first read to their last write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce

from tf_stitch.errors import SourceLoc, UnsupportedError
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, ImportedNode
from tf_stitch.ir.bind import unbound_symbols
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, key_of, with_operands
from tf_stitch.ir.op_attrs import AssignAttrs, ConstantAttrs, InputAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.types import Shape
from tf_stitch.passes.cse import EliminateCommonSubexpressions
from tf_stitch.planning.free_nodes import LARGEST_INLINE_CONSTANT


@dataclass(frozen=True)
class RegionGraph:
    """A region, ready to be registered.

    Attributes:
        graph: inputs have keys "i0", "i1", ..., variables "v0", ..., outputs "o0", ..., assigns the variable's name.
        members: names of the TensorFlow nodes it replaces, in topological order.
        inputs: TensorFlow tensor names behind the graph's inputs.
        outputs: TensorFlow tensor name -> number of the graph's output that holds its value.
        handles: tensor names of the resource handles behind the variables.
        assumes: sizes of two names are assumed equal (see graph.shapes.equal_dimensions); inputs show whether they are.
    """

    graph: TensorGraph
    members: tuple[str, ...]
    inputs: tuple[str, ...]
    handles: tuple[str, ...]
    outputs: dict[str, int]
    assumes: bool = False

    @property
    def input_keys(self) -> tuple[str, ...]:
        """Keys of the graph's inputs, in the op's order."""
        return tuple(input_key(i) for i in range(len(self.inputs)))

    @property
    def variable_keys(self) -> tuple[str, ...]:
        """Keys of the graph's variables, in the op's order."""
        return tuple(variable_key(i) for i in range(len(self.handles)))

    @cached_property
    def argument_shapes(self) -> tuple[Shape, ...]:
        """Shapes of the inputs, then of the variables, in the op's order."""
        shapes = {key_of(n): n.type.shape for n in self.graph.inputs()}
        return tuple(shapes[key] for key in (*self.input_keys, *self.variable_keys))


def input_key(number: int) -> str:
    return f"i{number}"


def variable_key(number: int) -> str:
    return f"v{number}"


def output_key(number: int) -> str:
    return f"o{number}"


@dataclass(frozen=True)
class Assumption:
    """That sizes are equal.

    Attributes:
        witnesses: tensors that show whether they are.
        sure: the graph, imported without it.
    """

    witnesses: tuple[str, ...]
    sure: ImportedGraph


CHECKED = "tfs_checked"
"""The name among a region's outputs of whether all that it was to check is true."""


def cut_region(imported: ImportedGraph, members: Sequence[str], wanted: Sequence[str],
               assumed: Assumption | None = None, shown: Sequence[str] = (), checks: Sequence[Node] = ()
               ) -> RegionGraph:
    """The region of `members`.

    Args:
        members: TensorFlow nodes in topological order.
        wanted: names of the region's live-out tensors.
        assumed: what the graph was imported with. Its witnesses become inputs in any case, and tensors that are of one
            value only then are not one output.
        shown: tensors that become inputs for their sizes.
        checks: scalars of bool, of values that the members compute; CHECKED says whether all are true.

    Raises:
        UnsupportedError: a size that no input decides, a variable of unknown shape that is written before it is read, a
            value without a type.
    """
    return _Cutter(imported, members).cut(wanted, assumed, shown, checks)


class _Cutter:
    def __init__(self, imported: ImportedGraph, members: Sequence[str]) -> None:
        self._imported, self._members = imported, list(members)
        self._inside = set(members)
        self._new: dict[Node, Node] = {}
        self._inputs: dict[str, Node] = {}
        self._reads: dict[str, str] = {}  # one read of each variable that nobody writes
        self._state: dict[str, Node] = {}  # current value of each variable
        self._variables: dict[str, Node] = {}
        self._written: dict[str, Node] = {}
        # Handles by the names they have here: in a loop or a branch the tensor that made one may not be read.
        self._handles = {imported.handles.get(t, t): t for m in members for t in imported.nodes[m].inputs}

    def cut(self, wanted: Sequence[str], assumed: Assumption | None, shown: Sequence[str], checks: Sequence[Node]
            ) -> RegionGraph:
        for name in self._members:
            self._node(self._imported.nodes[name])
        outputs: list[tuple[str, Node]] = []
        for tensor in wanted:
            value = self._imported.value(tensor)
            if value is None:
                raise UnsupportedError(f"{tensor} has no value in the region")
            outputs.append((tensor, self._new.get(value) or self._rebuild(value)))  # or an input that it hands on
        if checks:
            outputs.append((CHECKED, reduce(partial(Builder().op, OpKind.AND), map(self._rebuild, checks))))
        for handle, value in self._written.items():
            variable = self._variables[handle]
            assert isinstance(variable.attrs, VariableAttrs)
            outputs.append((variable.attrs.handle, Builder(value.loc).assign(variable.attrs.handle, value)))
        graph = EliminateCommonSubexpressions().run(TensorGraph(self._members[-1], outputs)).graph
        used = set(graph.inputs())
        if not used:
            raise UnsupportedError("reads nothing from outside")
        for tensor in (*shown, *(() if assumed is None else assumed.witnesses)):
            value = self._imported.value(tensor)
            assert value is not None  # see equal_sizes
            if self._input(tensor, value) not in used:
                graph.unread.append(self._inputs[tensor])
        used.update(graph.unread)
        for handle, value in self._written.items():
            if self._variables[handle] not in used:  # the region overwrites it without a look
                if not value.type.is_static or self._variables[handle].type != value.type:
                    raise UnsupportedError("writes a variable whose value the region does not need", value.loc)
                graph.unread.append(self._variables[handle])
        used.update(graph.unread)
        for name, node in unbound_symbols(graph).items():
            raise UnsupportedError(f"its size {name} depends on a tensor outside the region", node.loc)
        return _numbered(graph, tuple(self._members), [t for t, n in self._inputs.items() if n in used],
                         {h: self._handles[h] for h, n in self._variables.items() if n in used}, assumed)

    def _node(self, node: ImportedNode) -> None:
        """Rebuilds what one TensorFlow node computes; its variable reads see the region's earlier writes."""
        for value in node.outputs:
            if value is not None:
                self._rebuild(value)
        for handle, value in node.writes.items():
            self._written[handle] = self._rebuild(value)
        for handle in node.writes:
            if handle not in self._variables:
                self._variables[handle] = self._unread(handle, node)
            self._state[handle] = self._written[handle]

    def _unread(self, handle: str, node: ImportedNode) -> Node:
        """A variable that a node is the first to touch, as far as the graph says what it is."""
        shape, place = self._imported.variable_shapes.get(handle), SourceLoc(node.name, node.op)
        if shape is None:
            raise UnsupportedError("writes a variable that the region does not read", place)
        return Builder(place).variable(handle, self._written[handle].type.dtype, shape)

    def _rebuild(self, root: Node) -> Node:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self._new:
                stack.pop()
                continue
            leaf = self._leaf(node)
            if leaf is not None:
                self._new[node] = leaf
                continue
            missing = [o for o in node.operands if o not in self._new]
            if missing:
                stack.extend(missing)
                continue
            self._new[node] = with_operands(node, tuple(self._new[o] for o in node.operands))
        return self._new[root]

    def _leaf(self, node: Node) -> Node | None:
        if isinstance(node.attrs, VariableAttrs):
            handle = node.attrs.handle
            owner = self._imported.owner.get(node)
            if owner is not None and owner.rpartition(":")[0] not in self._inside:
                if handle in self._imported.constant_handles:  # every read gives the same value
                    owner = self._reads.setdefault(handle, owner)
                return self._input(owner, node)
            if handle not in self._state:
                self._state[handle] = self._variables[handle] = node
            return self._state[handle]
        tensor = self._imported.owner.get(node)
        if tensor is None or tensor.rpartition(":")[0] in self._inside:
            if isinstance(node.attrs, InputAttrs):
                raise UnsupportedError("a value of its own cannot be computed", node.loc)
            return None
        if _is_made_here(node):
            return None
        return self._input(tensor, node)

    def _input(self, tensor: str, node: Node) -> Node:
        if tensor not in self._inputs:
            self._inputs[tensor] = Builder(node.loc).input(tensor, node.type.dtype, node.type.shape)
        return self._inputs[tensor]


def _is_made_here(node: Node, depth: int = 6) -> bool:
    """Small constants, and what a few ops make of constants and positions alone (a causal mask), are copied into the
    region. Where these have sizes that change, what is read shows the sizes."""
    if isinstance(node.attrs, ConstantAttrs):
        return node.attrs.value.size <= LARGEST_INLINE_CONSTANT
    made = node.kind is OpKind.BROADCAST or \
        (node.type.is_static and (node.kind is OpKind.IOTA or node.category is Category.ELEMENTWISE))
    return made and depth > 0 and all(_is_made_here(operand, depth - 1) for operand in node.operands)


def _numbered(graph: TensorGraph, members: tuple[str, ...], tensors: Sequence[str],
              handles: Mapping[str, str], assumed: Assumption | None) -> RegionGraph:
    """Keys by number: regions of equal structure become equal graphs. Tensors of one value share an output."""
    keys: Mapping[str, str] = {t: input_key(i) for i, t in enumerate(tensors)}
    names: Mapping[str, str] = {h: variable_key(i) for i, h in enumerate(handles)}
    new: dict[Node, Node] = {}
    for node in graph.nodes():
        b = Builder(node.loc)
        if isinstance(node.attrs, InputAttrs):
            new[node] = b.input(keys[node.attrs.key], node.type.dtype, node.type.shape)
        elif isinstance(node.attrs, VariableAttrs):
            new[node] = b.variable(names[node.attrs.handle], node.type.dtype, node.type.shape)
        elif isinstance(node.attrs, AssignAttrs):
            new[node] = b.assign(names[node.attrs.handle], new[node.operands[0]])
        else:
            new[node] = with_operands(node, tuple(new[o] for o in node.operands))
    number: dict[tuple[Node, object], int] = {}
    outputs = {key: number.setdefault((new[n], None if assumed is None else assumed.sure.value(key) or key),
                                      len(number)) for key, n in graph.outputs if key not in names}
    live_out = [(output_key(i), n) for (n, _), i in number.items()]
    assigned = [(names[key], new[n]) for key, n in graph.outputs if key in names]
    unread = [new[n] for n in graph.unread]
    return RegionGraph(TensorGraph(graph.name, live_out + assigned, unread), members, tuple(tensors),
                       tuple(handles.values()), outputs, assumed is not None)
