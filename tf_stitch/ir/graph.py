"""The tensor IR: a graph of nodes with one typed result each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tf_stitch.errors import UNKNOWN_LOC, SourceLoc, TypeRuleError
from tf_stitch.ir.op_attrs import Attrs, InputAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.op_table import OP_TABLE, OpInfo
from tf_stitch.ir.types import TensorType


@dataclass(frozen=True, eq=False)
class Node:
    """One op and its result. Identity is the object: two equal-looking nodes are two values."""

    kind: OpKind
    operands: tuple[Node, ...]
    attrs: Attrs
    type: TensorType
    loc: SourceLoc = UNKNOWN_LOC

    @property
    def info(self) -> OpInfo:
        return OP_TABLE[self.kind]

    @property
    def category(self) -> Category:
        return OP_TABLE[self.kind].category

    def __repr__(self) -> str:
        return f"<{self.kind.value} {self.type} {self.loc}>"


def make_node(kind: OpKind, operands: Iterable[Node] = (), attrs: Attrs | None = None,
              loc: SourceLoc = UNKNOWN_LOC) -> Node:
    """A node whose type the op's type rule gives.

    Raises:
        TypeRuleError: wrong arity, attributes or operand types; the message names `loc`.
    """
    operands = tuple(operands)
    attrs = Attrs() if attrs is None else attrs
    info = OP_TABLE[kind]
    if len(operands) != info.arity and not (info.arity < 0 and operands):
        raise TypeRuleError(f"{kind.value} takes {info.arity} operands, not {len(operands)}", loc)
    if type(attrs) is not info.attrs:
        raise TypeRuleError(f"{kind.value} takes {info.attrs.__name__}, not {type(attrs).__name__}", loc)
    try:
        result = info.type_rule([o.type for o in operands], attrs)
    except TypeRuleError as error:
        raise (error if error.loc else TypeRuleError(f"{kind.value}: {error.message}", loc)) from None
    return Node(kind, operands, attrs, result, loc)


def with_operands(node: Node, operands: tuple[Node, ...]) -> Node:
    """A node like `node` with these operands; itself if it has them. Errors are those of make_node."""
    if operands == node.operands:  # nodes are equal if they are the same
        return node
    if [o.type for o in operands] == [o.type for o in node.operands]:  # so the type rule gives the same
        return Node(node.kind, operands, node.attrs, node.type, node.loc)
    return make_node(node.kind, operands, node.attrs, node.loc)


@dataclass
class TensorGraph:
    """A region: outputs (and the assigns among them) define what is computed.

    `outputs` pairs a key (a TensorFlow tensor name, or a variable's handle for an assign) with its node. `unread` are
    inputs that nothing is computed from: their sizes have to fit when the graph is bound. `after` holds nodes that are
    computed after others, though not from them: a value that is computed again late would be there early otherwise.
    `_known`: roots and what they are made of, when last asked; nodes do not change.
    """

    name: str
    outputs: list[tuple[str, Node]] = field(default_factory=list)
    unread: list[Node] = field(default_factory=list)
    after: dict[Node, Node] = field(default_factory=dict)
    _known: tuple[tuple[Node, ...], tuple[Node, ...]] = field(default=((), ()), init=False, repr=False, compare=False)

    def nodes(self) -> list[Node]:
        """Nodes that outputs need, operands before users, in an order that depends on the graph alone."""
        roots = (*(node for _, node in self.outputs), *self.unread)
        if self._known[0] != roots:
            self._known = roots, _in_order(roots)
        return list(self._known[1])

    def inputs(self) -> list[Node]:
        """INPUT and VARIABLE nodes in order of first use."""
        return [n for n in self.nodes() if n.kind in (OpKind.INPUT, OpKind.VARIABLE)]


def _in_order(roots: Sequence[Node]) -> tuple[Node, ...]:
    """The roots and all that they are made of, operands first."""
    order: dict[Node, None] = {}
    stack = [*reversed(roots)]
    while stack:
        node = stack[-1]
        before = [o for o in node.operands if o not in order] if node not in order else []
        if before:
            stack.extend(reversed(before))
        else:
            order[stack.pop()] = None
    return tuple(order)


def users_of(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Users of each node among `nodes`, each once."""
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        if node not in users:
            users[node] = []
        operands = node.operands
        for operand in operands if len(operands) == 1 else dict.fromkeys(operands):
            if operand in users:
                users[operand].append(node)
            else:
                users[operand] = [node]
    return users


def key_of(node: Node) -> str:
    """The key of an input, the handle of a variable."""
    assert isinstance(node.attrs, InputAttrs | VariableAttrs)
    return node.attrs.key if isinstance(node.attrs, InputAttrs) else node.attrs.handle


def collect(node: Node, outside: Collection[Node], found: dict[Node, None]) -> None:
    """Adds `node` and what it is made of, operands first, down to values that come from outside."""
    if node in found or node in outside:
        return
    for operand in node.operands:
        collect(operand, outside, found)
    found[node] = None


def view_of(node: Node) -> Node:
    """The node whose memory, read in order, is the value of `node`."""
    while node.kind is OpKind.RESHAPE:
        node = node.operands[0]
    return node
