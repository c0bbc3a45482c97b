"""Shapes that TensorFlow's inference loses in loops: of loop variables, and of tensors that lists keep.

A loop variable is assumed to keep the shape it enters with. Under that assumption the loop's body is imported, and
what comes back over the loop's edge is compared: if it provably has the assumed shape again, the assumption holds in
every iteration, by induction. Sizes that do not come back are given up, and the graph is imported again.

An element of a list has the shape of what was pushed or set. It may come from another iteration, so only numbers and
sizes of tensors that wait for no loop, which no iteration changes, are taken over. A list that was made with this many
elements, which were only set, has as many when it is stacked: what TensorFlow calls that size is then one more name of
the number or of the size that the list was made with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.node_context import TensorSpec, fresh_symbol, is_fresh
from tf_stitch.ir.types import Dim, Shape, Symbol

ShapeOf: TypeAlias = Callable[[str], Shape | None]
SizeOf: TypeAlias = Callable[[str], Dim | None]
GivenUp: TypeAlias = Mapping[str, frozenset[int] | None]
"""Merge -> axes whose sizes change in its loop; None: nothing of its shape is known."""

ARGUMENTS = ("_Arg", "Placeholder")

STITCH_WHILE = "StitchWhile"
"""A loop that runs as one op (graph/loops/while_node.py)."""

ROWS = "_tf_stitch_rows"
"""Its attribute that says of each result which input is the number of its rows, -1: none."""

_PASS = ENTERS | EXITS | SWITCHES | NEXT_ITERATIONS | {"Identity"}
_TAKES = {"TensorListPopBack": 1, "TensorListGetItem": 0}
"""Op -> the output that is an element."""
_PUTS = {"TensorListPushBack": 1, "TensorListSetItem": 2}
"""Op -> the input that becomes an element."""
_MOST_NESTED = 4
"""Lists within lists that are looked through: one for each loop around the one whose gradient is taken."""


class LoopShapes:
    """Refines the types of one graph while it is imported in topological order.

    Args:
        defs: the graph's nodes.
        shape_of: tensor -> its shape as far as it has been imported.
        size_of: tensor -> the size that its one element is, if that is known.
        given_up: what earlier imports found not to hold.
    """

    def __init__(self, defs: Mapping[str, Any], shape_of: ShapeOf, size_of: SizeOf, given_up: GivenUp) -> None:
        self._defs, self._shape_of, self._size_of, self._given_up = defs, shape_of, size_of, given_up
        self._assumed: dict[str, Shape] = {}
        self._behind_loops: set[str] = set()
        self._named: set[Symbol] = set()
        self._fixed: set[Symbol] = set()
        self._equal: dict[Symbol, Dim] = {}

    def refine(self, node: Any, specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        """The node's output types with what is known beside TensorFlow's inference."""
        inputs = _data(node)
        specs = tuple(self._by_one_name(spec) for spec in specs) if self._equal else specs
        sizes = {d for spec in specs for d in spec.shape or () if isinstance(d, Symbol)}
        if node.op in ARGUMENTS:
            self._named.update(sizes)
        if node.op in ENTERS or any(producer_of(edge) in self._behind_loops for edge in node.input):
            self._behind_loops.add(node.name)
        else:
            self._fixed.update(sizes)
        if node.op in _PASS and inputs:
            shape = self._shape_of(inputs[0])
            return tuple(finer(spec, shape) for spec in specs)
        elif node.op in MERGES and specs:
            return finer(specs[0], self._merged(node, inputs)), *specs[1:]
        elif node.op in _TAKES and len(specs) > _TAKES[node.op]:
            index = _TAKES[node.op]
            return *specs[:index], finer(specs[index], self._element(node.name, inputs[0])), *specs[index + 1 :]
        elif node.op == "TensorListStack":
            return (self._with_rows(specs[0], self._length(inputs[0])),)
        elif node.op == STITCH_WHILE:
            rows = [None if k < 0 else self._count(inputs[k]) for k in node.attr[ROWS].list.i]
            return tuple(self._with_rows(spec, count) for spec, count in zip(specs, rows, strict=True))
        return specs

    def call(self, names: Mapping[Dim, Dim]) -> None:
        """TensorFlow's names of sizes -> the names that they have here: types that come later have these."""
        for theirs, ours in names.items():
            if theirs != ours and isinstance(theirs, Symbol) and theirs not in self._named and not is_fresh(theirs) \
                    and not is_fresh(ours):
                self._equal.setdefault(theirs, ours)

    def broken(self) -> dict[str, frozenset[int] | None]:
        """After the import: assumptions that do not hold, as `given_up` takes them."""
        found: dict[str, frozenset[int] | None] = {}
        for name, assumed in self._assumed.items():
            back = self._shape_of(self._back_edge(self._defs[name]) or "")
            if back is None or len(back) != len(assumed):
                found[name] = None
                continue
            axes = frozenset(i for i, (a, b) in enumerate(zip(assumed, back, strict=True)) if a != b)
            if axes - self._changing(name):
                found[name] = axes | self._changing(name)
        return found

    def _merged(self, node: Any, inputs: Sequence[str]) -> Shape | None:
        if self._back_edge(node) is None:  # of a branch
            shapes = {self._shape_of(tensor) for tensor in inputs}
            return shapes.pop() if len(shapes) == 1 else None
        if node.name in self._given_up and self._given_up[node.name] is None:
            return None
        entering = next((t for t in inputs if self._op(t) in ENTERS), None)
        shape = None if entering is None else self._shape_of(entering)
        if shape is None:
            return None
        changing = self._changing(node.name)
        self._assumed[node.name] = tuple(fresh_symbol(node.name, f"0_{i}") if i in changing else d
                                         for i, d in enumerate(shape))  # fmt: skip
        return self._assumed[node.name]

    def _changing(self, name: str) -> frozenset[int]:
        return self._given_up.get(name) or frozenset()

    def _back_edge(self, node: Any) -> str | None:
        return next((t for t in _data(node) if self._op(t) in NEXT_ITERATIONS), None)

    def _op(self, tensor: str) -> str:
        return str(self._defs[tensor.rpartition(":")[0]].op)

    def _count(self, tensor: str) -> Dim | None:
        """The size that a tensor is, if that is known."""
        node = self._defs[tensor.rpartition(":")[0]]
        return self._length(_data(node)[0]) if node.op == "TensorListLength" else self._size_of(tensor)

    def _length(self, handle: str) -> Dim | None:
        """How many elements a list has; None if that is not known, or not the same on all ways."""
        lengths: set[Dim | None] = set()
        pending, seen = [handle], {handle}
        while pending:
            node = self._defs[pending.pop().rpartition(":")[0]]
            inputs = _data(node)
            if node.op == "TensorListReserve":
                lengths.add(self._count(inputs[1]))
                continue
            if node.op == "TensorListFromTensor":
                whole = self._shape_of(inputs[0])
                lengths.add(whole[0] if whole else None)
                continue
            if node.op not in _PASS | MERGES | {"TensorListSetItem"} or grows(node):
                return None
            fresh = [t for t in (inputs if node.op in MERGES else inputs[:1]) if t not in seen]
            seen.update(fresh)
            pending += fresh
        return lengths.pop() if len(lengths) == 1 else None

    def _element(self, name: str, handle: str) -> Shape | None:
        """The shape of what node `name` takes from a list; None if not all elements have the same that is known."""
        elements: set[Shape | None] = set()
        pending, seen = [(handle, 0)], {(handle, 0)}
        while pending:
            tensor, depth = pending.pop()  # a list of lists of ... of the lists whose elements are meant
            node = self._defs[producer_of(tensor)]
            inputs = _data(node)
            ahead = [(edge, depth) for edge in (inputs if node.op in MERGES else inputs[:1])]
            if node.op in ("EmptyTensorList", "TensorListReserve"):
                continue
            elif node.op in _PUTS:
                element = inputs[_PUTS[node.op]]
                if depth:
                    ahead.append((element, depth - 1))
                else:
                    elements.add(self._shape_of(element))
            elif node.op == "TensorListFromTensor" and not depth:
                whole = self._shape_of(inputs[0])
                elements.add(None if whole is None else whole[1:])
                continue
            elif node.op in _TAKES and tensor == f"{node.name}:{_TAKES[node.op]}":
                ahead = [(inputs[0], depth + 1)]
            elif node.op not in _PASS and node.op not in _TAKES and node.op not in MERGES:
                return None
            if depth == _MOST_NESTED:
                return None
            fresh = [step for step in ahead if step not in seen]
            seen.update(fresh)
            pending += fresh
        shape = elements.pop() if len(elements) == 1 else None
        if shape is None:
            return None
        return tuple(d if isinstance(d, int) or d in self._fixed else fresh_symbol(name, f"element_{i}")
                     for i, d in enumerate(shape))  # fmt: skip

    def _with_rows(self, spec: TensorSpec, rows: Dim | None) -> TensorSpec:
        """The type with a first size that TensorFlow does not know, or by another name."""
        first = spec.shape[0] if spec.shape else 0
        if rows is None or spec.shape is None or isinstance(first, int) or first in self._named:
            return spec
        if not is_fresh(first):  # other types have it too
            if isinstance(rows, Symbol) and rows not in self._fixed:
                return spec
            self._equal[first] = rows
        return TensorSpec(spec.dtype, (rows, *spec.shape[1:]))

    def _by_one_name(self, spec: TensorSpec) -> TensorSpec:
        """The type with sizes by the names that they got here."""
        if spec.shape is None:
            return spec
        equal = self._equal
        return TensorSpec(spec.dtype, tuple(equal.get(d, d) if isinstance(d, Symbol) else d for d in spec.shape))


def grows(node: Any) -> bool:
    """Whether a TensorListSetItem makes its list longer where it has no such element: of a tf.TensorArray of dynamic
    size."""
    attribute = "resize_if_index_out_of_bounds"
    return attribute in node.attr and bool(node.attr[attribute].b)


def finer(spec: TensorSpec, shape: Shape | None) -> TensorSpec:
    """The type with sizes from `shape` where it has none; as it is if the two contradict each other."""
    if shape is None or spec.shape is None:
        return spec if shape is None else TensorSpec(spec.dtype, shape)
    if len(spec.shape) != len(shape):
        return spec
    return TensorSpec(spec.dtype, tuple(_finer(a, b) for a, b in zip(spec.shape, shape, strict=True)))


def _finer(theirs: Dim, ours: Dim) -> Dim:
    return theirs if isinstance(theirs, int) else ours


def _data(node: Any) -> list[str]:
    return [canonical_tensor(edge) for edge in node.input if not edge.startswith("^")]
