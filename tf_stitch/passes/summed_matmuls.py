"""Sums of matmuls of matrices that kernels compute, with whatever else reads these (see fuse_summed_matmuls.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tf_stitch.ir.graph import Node, TensorGraph, users_of, view_of
from tf_stitch.ir.op_attrs import DotAttrs, ReduceAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim


@dataclass(frozen=True)
class SummedMatmuls:
    """Matmuls of one type in one sum, whose left matrices nobody else reads but those named here.

    Attributes:
        total: the sum.
        others: what else it adds up, some of it perhaps to all rows alike.
        matmuls: which can become one.
        gradients: matmuls with each of their left matrices on the right, of one other matrix; empty: there are none.
        columns: sums of the columns of left matrices, by the place of the matrix.
    """

    total: Node
    others: tuple[Node, ...]
    matmuls: tuple[Node, ...]
    gradients: tuple[Node, ...]
    columns: tuple[tuple[Node, int], ...]

    @property
    def left(self) -> list[Node]:
        return [matmul.operands[0] for matmul in self.matmuls]

    @property
    def right(self) -> list[Node]:
        return [matmul.operands[1] for matmul in self.matmuls]


class SummedMatmulsFinder:
    """Args:
        large: bytes of a left matrix, at least.
    """

    def __init__(self, graph: TensorGraph, large: int) -> None:
        self._nodes, self._large = graph.nodes(), large
        self._users: Mapping[Node, Sequence[Node]] = users_of(self._nodes)
        self._wanted: Collection[Node] = {n for _, n in graph.outputs}

    def find(self) -> list[SummedMatmuls]:
        if sum(n.kind is OpKind.DOT for n in self._nodes) < 2:
            return []
        return [g for n in self._nodes if n.kind is OpKind.ADD and (g := self._group(n)) is not None]

    def _group(self, total: Node) -> SummedMatmuls | None:
        """The matmuls of a sum that is no part of a larger one."""
        if self._is_part(total):
            return None
        added = self._terms(total)
        terms = {t: self._matmul(t) if t.type == total.type else None for t in added}
        if len(terms) < len(added):
            return None  # one counts twice
        matmuls = _most_alike([p for p in terms.values() if p is not None])
        left = [p.operands[0] for p in matmuls]
        if len(matmuls) < 2 or not self._can_be_one(left, [p.operands[1] for p in matmuls]):
            return None
        readers = [[r for r in self._readers(a) if r not in matmuls] for a in left]
        gradients = _gradients_together(readers, left)
        if gradients is None:
            return None
        columns = [(r, place) for place, of in enumerate(readers) for r in of if r not in gradients]
        if not all(_sums_columns(r, left[place]) for r, place in columns):
            return None
        others = tuple(t for t, p in terms.items() if p not in matmuls)
        return SummedMatmuls(total, others, tuple(matmuls), gradients, tuple(columns))

    def _can_be_one(self, left: Sequence[Node], weights: Sequence[Node]) -> bool:
        """Whether left matrices can stand side by side in one, where nobody needs them alone; that takes a copy of each
        weight, which is smaller."""
        return (len(set(left)) == len(left) and not any(view_of(a) in self._wanted for a in left)
                and sum(w.type.nbytes for w in weights) <= sum(a.type.nbytes for a in left))

    def _is_part(self, node: Node) -> bool:
        """Whether a sum is nothing but a term of another of its type."""
        users = self._users[node]
        return (node.kind is OpKind.ADD and node.operands[0] is not node.operands[1] and node not in self._wanted
                and len(users) == 1 and users[0].kind is OpKind.ADD and users[0].type == node.type)

    def _terms(self, total: Node) -> list[Node]:
        """What a sum of sums adds up, in order."""
        found: list[Node] = []
        pending = [*total.operands[::-1]]
        while pending:
            node = pending.pop()
            if self._is_part(node):
                pending += node.operands[::-1]
            else:
                found.append(node)
        return found

    def _matmul(self, term: Node) -> Node | None:
        """The matmul that a term is, be it in another shape, if the sum alone needs it and a kernel computes its left
        matrix."""
        node = term
        while node.kind is OpKind.RESHAPE and len(self._users[node]) == 1 and node not in self._wanted:
            node = node.operands[0]
        if not isinstance(node.attrs, DotAttrs) or node.type.rank != 2 or node.attrs.transpose_a \
                or len(self._users[node]) > 1 or node in self._wanted \
                or any(isinstance(d, SymbolicDim) for o in node.operands for d in o.type.dims):
            return None
        made = view_of(node.operands[0])
        kernels = made.category in (Category.ELEMENTWISE, Category.MOVEMENT)
        return node if kernels and node.operands[0].type.nbytes >= self._large else None

    def _readers(self, value: Node) -> Iterator[Node]:
        """What reads a value, be it in another shape; a shape in which memory has to hold it reads it, too."""
        pending = [view_of(value)]
        while pending:
            for user in self._users[pending.pop()]:
                if user.kind is OpKind.RESHAPE and user not in self._wanted:
                    pending.append(user)
                else:
                    yield user


def _gradients_together(readers: Sequence[Sequence[Node]], left: Sequence[Node]) -> tuple[Node, ...] | None:
    """The gradients of weights, which one matmul can give: of all or none, and of one other matrix; else None.

    Args:
        readers: of each of the left matrices.
    """
    gradients = [next((r for r in of if _is_gradient(r, a)), None) for of, a in zip(readers, left, strict=True)]
    found = tuple(g for g in gradients if g is not None)
    if found and (len(found) < len(left) or len(set(map(_other_matrix, found))) > 1):
        return None
    return found


def _most_alike(matmuls: Sequence[Node]) -> list[Node]:
    """The most matmuls of one type and form."""
    alike: dict[object, list[Node]] = {}
    for matmul in matmuls:
        alike.setdefault((matmul.type, matmul.attrs), []).append(matmul)
    return max(alike.values(), key=len, default=[])


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
