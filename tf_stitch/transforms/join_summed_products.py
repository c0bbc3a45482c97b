"""Sums of products become one product with longer sums: A1 B1 + A2 B2 = [A1 A2] [B1; B2].

Query, key and value of an attention layer come from one tensor, x. Its gradient is such a sum, of the gradients of the
three, A1 to A3, and their weights. Kernels write the three side by side as easily as apart. What else reads them then
reads them so: the gradients of the weights, x^T A1 and so on, are one product, as are the sums of columns that are the
gradients of the biases. Intermediate sums are neither written nor read, and a library has fewer last waves (see
join_products.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, make_node, users_of, view_of
from tf_stitch.ir.op_attrs import DotAttrs, ReduceAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.sizes import Size
from tf_stitch.pass_manager import PassResult

LARGE = 1 << 20
"""Bytes of each matrix that kernels write; smaller ones were not timed. Weights that lie side by
side are copies, so all of them may have no more bytes than these matrices."""

Users = Mapping[Node, Sequence[Node]]


@dataclass(frozen=True)
class _Group:
    """Products of one sum, and whatever else reads their left matrices.

    Attributes:
        total: the sum.
        others: what else it adds up.
        products: which become one.
        gradients: products with each of their left matrices on the right, of one other matrix; empty: there are none.
        columns: sums of the columns of left matrices, by the place of the matrix.
    """

    total: Node
    others: tuple[Node, ...]
    products: tuple[Node, ...]
    gradients: tuple[Node, ...]
    columns: tuple[tuple[Node, int], ...]

    @property
    def left(self) -> list[Node]:
        return [product.operands[0] for product in self.products]

    @property
    def right(self) -> list[Node]:
        return [product.operands[1] for product in self.products]

    def replaced(self) -> Iterator[tuple[Node, list[Node]]]:
        """Nodes that are made anew, and what they then need."""
        yield self.total, [*self.others, *self.left, *self.right]
        for node in self.gradients:
            yield node, [node.operands[0], *self.left]
        for node, _ in self.columns:
            yield node, self.left


@dataclass(frozen=True)
class JoinSummedProducts:
    """Joins products of which kernels compute the left matrices, where nobody else reads these."""

    name: str = "join_summed_products"

    def run(self, graph: TensorGraph) -> PassResult:
        nodes = graph.nodes()
        if sum(n.kind is OpKind.DOT for n in nodes) < 2:
            return PassResult(graph, modified=False)
        users = users_of(nodes)
        wanted = {n for _, n in graph.outputs}
        groups = [g for n in nodes if (g := _group(n, users, wanted)) is not None]
        while groups:
            try:
                return PassResult(_joined(graph, groups), modified=True)
            except CycleError as error:  # groups that wait for each other
                groups = [g for g in groups if not any(node in error.args[1] for node, _ in g.replaced())]
        return PassResult(graph, modified=False)


def _group(node: Node, users: Users, wanted: set[Node]) -> _Group | None:
    """The group of a sum that is no part of a larger one."""
    if node.kind is not OpKind.ADD or any(user.kind is OpKind.ADD and len(users[node]) == 1 for user in users[node]):
        return None
    added = list(_terms(node, users, wanted))
    terms = {t: _product(t, users, wanted) for t in added}
    if len(terms) < len(added):
        return None  # one counts twice
    found = [p for p in terms.values() if p is not None]
    products = tuple(p for p in found if p.attrs == found[0].attrs)
    left = [p.operands[0] for p in products]
    if len(products) < 2 or len(set(left)) < len(left) or any(a in wanted for a in left):
        return None
    if sum(p.operands[1].type.nbytes for p in products) > sum(a.type.nbytes for a in left):
        return None  # which takes a copy of each weight
    readers = [[r for r in _readers(a, users) if r not in products] for a in left]
    gradients = [next((r for r in of if _is_gradient(r, a)), None) for of, a in zip(readers, left, strict=True)]
    together = [g for g in gradients if g is not None]
    if together and (len(together) < len(left) or len(set(map(_other_matrix, together))) > 1):
        return None
    columns = [(r, place) for place, of in enumerate(readers) for r in of if r not in together]
    if not all(_sums_columns(r, left[place]) for r, place in columns):
        return None
    others = tuple(t for t, p in terms.items() if p not in products)
    group = _Group(node, others, products, tuple(together), tuple(columns))
    return None if _waits_for_itself(group) else group


def _terms(node: Node, users: Users, wanted: set[Node]) -> Iterator[Node]:
    """What a sum of sums adds up; a sum that others need is one term."""
    for operand in node.operands:
        if operand.kind is OpKind.ADD and len(users[operand]) == 1 and operand not in wanted \
                and operand.operands[0] is not operand.operands[1]:
            yield from _terms(operand, users, wanted)
        else:
            yield operand


def _product(term: Node, users: Users, wanted: set[Node]) -> Node | None:
    """The product that a term is, be it in another shape, if the sum alone needs it and a kernel computes its left
    matrix."""
    node = term
    while node.kind is OpKind.RESHAPE and len(users[node]) == 1 and node not in wanted:
        node = node.operands[0]
    if not isinstance(node.attrs, DotAttrs) or node.type.rank != 2 or node.attrs.transpose_a or len(users[node]) > 1 \
            or node in wanted or any(isinstance(d, Size) for o in node.operands for d in o.type.dims):
        return None
    made = view_of(node.operands[0])
    kernels = made.category in (Category.ELEMENTWISE, Category.MOVEMENT)
    return node if kernels and node.operands[0].type.nbytes >= LARGE else None


def _readers(value: Node, users: Users) -> Iterator[Node]:
    """Who reads a value, be it in another shape."""
    base = view_of(value)
    pending = [base]
    while pending:
        for user in users[pending.pop()]:
            if user.kind is OpKind.RESHAPE:
                pending.append(user)
            else:
                yield user


def _is_gradient(reader: Node, value: Node) -> bool:
    if not isinstance(reader.attrs, DotAttrs) or reader.attrs.transpose_b or reader.type.rank != 2:
        return False
    other, same = reader.operands
    return view_of(same) is view_of(value) is not view_of(other) and same.type == value.type


def _other_matrix(gradient: Node) -> tuple[object, ...]:
    other = gradient.operands[0]
    return view_of(other), other.type, gradient.attrs


def _sums_columns(reader: Node, value: Node) -> bool:
    """Whether a value's rows are added up, in whatever shape that keeps columns."""
    if reader.kind is not OpKind.SUM or not isinstance(reader.attrs, ReduceAttrs):
        return False
    axes = reader.attrs.axes
    return axes == tuple(range(len(axes))) and reader.type.numel == value.type.dims[-1]


def _waits_for_itself(group: _Group) -> bool:
    """Whether a left matrix comes from what will be computed of all of them."""
    replaced = {node for node, _ in group.replaced()}
    seen: set[Node] = set()
    pending = [*group.left, *group.right, *group.others, *(g.operands[0] for g in group.gradients[:1])]
    while pending:
        node = pending.pop()
        if node in replaced:
            return True
        if node not in seen:
            seen.add(node)
            pending += node.operands
    return False


def _joined(graph: TensorGraph, groups: Sequence[_Group]) -> TensorGraph:
    needs = {node: list(node.operands) for node in graph.nodes()}
    home: dict[Node, _Group] = {}
    for group in groups:
        for node, needed in group.replaced():
            needs[node], home[node] = needed, group
    new: dict[Node, Node] = {}
    for node in TopologicalSorter(needs).static_order():
        if node in new:
            continue
        if node in home:
            new |= _made(home[node], node, new)
            continue
        operands = tuple(new[o] for o in node.operands)
        same = all(a is b for a, b in zip(operands, node.operands, strict=True))
        new[node] = node if same else make_node(node.kind, operands, node.attrs, node.loc)
    return TensorGraph(graph.name, [(key, new[n]) for key, n in graph.outputs], [new.get(n, n) for n in graph.unread])


def _made(group: _Group, node: Node, new: dict[Node, Node]) -> dict[Node, Node]:
    """What stands for a node of a group, or for all of its kind."""
    left = _beside(group.left, 1, new)
    b = Builder(node.loc)
    ends = list(accumulate(a.type.dims[1] for a in group.left))
    starts = [0, *ends]
    if node is group.total:
        attrs = group.products[0].attrs
        assert isinstance(attrs, DotAttrs)
        total = b.dot(left, _beside(group.right, 1 if attrs.transpose_b else 0, new), False, attrs.transpose_b)
        total = b.reshape(total, node.type.shape)
        for other in group.others:
            total = b.add(new[other], total)
        return {node: total}
    if node in group.gradients:
        attrs = node.attrs
        assert isinstance(attrs, DotAttrs)
        joined = b.dot(new[node.operands[0]], left, attrs.transpose_a, False)
        return {g: Builder(g.loc).slice(joined, (0, start), (1, 1), g.type.shape)
                for g, start in zip(group.gradients, starts, strict=False)}
    sums = b.sum(left, [0])
    found: dict[Node, Node] = {}
    for one, place in group.columns:
        part = Builder(one.loc).slice(sums, (starts[place],), (1,), (group.left[place].type.dims[1],))
        found[one] = Builder(one.loc).reshape(part, one.type.shape)
    return found


def _beside(matrices: Sequence[Node], axis: int, new: dict[Node, Node]) -> Node:
    """Matrices side by side; equal ones become one node later (cse.py)."""
    return Builder(matrices[0].loc).concat([new[m] for m in matrices], axis)
