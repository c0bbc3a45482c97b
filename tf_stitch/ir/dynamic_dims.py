"""Symbols that change become symbolic dimensions; those that the graph itself relates (the rows of a flattened tensor)
become one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from tf_stitch.errors import BindError
from tf_stitch.ir.bind import Related, attr_shape, bind_nodes, bound_graph, symbol_sizes
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.symbolic_dims import SymbolicDim, atoms, in_terms_of, size
from tf_stitch.ir.vector_sizes import dimensions_of_vectors

Sizes: TypeAlias = Mapping[str, int]


class Relations:
    """What a graph ties some of its changing symbols to, and which dimensions vectors need, kept for other numbers: in
    a large graph it takes seconds to find. Threads may share it."""

    def __init__(self) -> None:
        self._known: tuple[frozenset[str], Sizes, frozenset[str]] | None = None

    def at(self, numbers: Mapping[str, int], changing: Collection[str]) -> tuple[dict[str, int], frozenset[str]] | None:
        """The relations at other numbers, and the dimensions of vectors; None if none are known, or these numbers do
        not fit them."""
        known = self._known
        if known is None or known[0] != frozenset(changing):
            return None
        related = _at(known[1], numbers)
        return None if related is None else (related, known[2])

    def keep(self, changing: Collection[str], related: Sizes, vectors: frozenset[str]) -> None:
        """Remembers what was found."""
        self._known = frozenset(changing), related, vectors


def bind_changing(graph: TensorGraph, shapes: Mapping[str, Sequence[int]], changing: Collection[str],
                  multiple: int = 1, relations: Relations | None = None) -> TensorGraph:
    """As bind, but the symbols of `changing` become Sizes.

    Args:
        multiple: a symbol whose size is a multiple of this is known to be one, if vectors need it.
        relations: known from other numbers.

    Raises:
        BindError: as bind, or equal sizes whose relation cannot be told from the graph.
    """
    numbers = symbol_sizes(graph, shapes)
    known = None if relations is None else relations.at(numbers, changing)
    if known is not None:
        related, vectors = known
        try:
            return _bound(graph, _factored(_sizes(numbers, changing, related), multiple, vectors))
        except (BindError, Related):  # they hold for other numbers alone
            pass
    bound, related = _related(graph, numbers, changing)
    vectors = dimensions_of_vectors(bound)
    if relations is not None:
        relations.keep(changing, related, vectors)
    sizes = _sizes(numbers, changing, related)
    factored = _factored(sizes, multiple, vectors)
    return bound if factored == sizes else _bound(graph, factored)


def related_symbols(graph: TensorGraph, shapes: Mapping[str, Sequence[int]], changing: Collection[str],
                    relations: Relations | None = None) -> dict[str, int]:
    """Symbols of `changing` that the graph itself ties to others, or to be multiples, each with its size in terms of
    what is free. Arguments and errors are those of bind_changing."""
    numbers = symbol_sizes(graph, shapes)
    known = None if relations is None else relations.at(numbers, changing)
    return _related(graph, numbers, changing)[1] if known is None else known[0]


def atom_values(numbers: Mapping[str, int], multiple: int) -> dict[str, int]:
    """What the atoms are of which bind_changing may make the sizes for these numbers."""
    factors = (1, multiple)
    return {a.name: a.value for n, v in numbers.items() for f in factors if v % f == 0 for a in atoms(size(n, v, f))}


def _sizes(numbers: Mapping[str, int], changing: Collection[str], related: Sizes) -> dict[str, int]:
    return {name: related.get(name, size(name, value) if name in changing else value)
            for name, value in numbers.items()}


def _factored(sizes: Sizes, multiple: int, vectors: Collection[str]) -> dict[str, int]:
    """The sizes with those of `vectors` that are multiples of `multiple` known to be."""
    free = {a.name: a.value for v in sizes.values() for a in atoms(v)}
    factors = {n: size(n, v, multiple) for n, v in free.items() if n in vectors and v % multiple == 0}
    return {n: in_terms_of(v, factors) for n, v in sizes.items()} if multiple > 1 and factors else dict(sizes)


def _bound(graph: TensorGraph, sizes: dict[str, int]) -> TensorGraph:
    return bound_graph(graph, bind_nodes(graph.nodes(), dict(sizes), {}))


def _related(graph: TensorGraph, numbers: Mapping[str, int], changing: Collection[str]
             ) -> tuple[TensorGraph, dict[str, int]]:
    """The graph bound, and the relations that were found meanwhile. With each, the nodes that it touches are bound
    again."""
    related: dict[str, int] = {}
    env, nodes, new = _sizes(numbers, changing, related), graph.nodes(), dict[Node, Node]()
    while True:
        try:
            return bound_graph(graph, bind_nodes(nodes, env, new)), related
        except Related as relation:
            free = {*changing, *(a.name for v in related.values() for a in atoms(v))}
            if relation.name in related or relation.name not in free:
                raise BindError(f"size {relation.name} has two meanings") from None
            found = {relation.name: relation.value}
            related = {n: in_terms_of(v, found) for n, v in related.items()} | found
            env = {n: v for n, v in env.items() if not _names(v, relation.name)} | _sizes(numbers, changing, related)
            new = _untouched(nodes, new, relation.name)


def _names(value: object, name: str) -> bool:
    return isinstance(value, SymbolicDim) and any(atom.name == name for atom in atoms(value))


def _untouched(nodes: Sequence[Node], new: Mapping[Node, Node], name: str) -> dict[Node, Node]:
    """Bound nodes of whose sizes none, nor any of what they are made of, are in terms of `name`."""
    kept: dict[Node, Node] = {}
    for node in nodes:
        made = new.get(node)
        if made is not None and all(o in kept for o in node.operands) \
                and not any(_names(d, name) for d in (*made.type.shape, *attr_shape(made.attrs))):
            kept[node] = made
    return kept


def _at(related: Sizes, numbers: Mapping[str, int]) -> dict[str, int] | None:
    """Relations with other numbers in place of those they were found for; None where these contradict them."""
    values = {name: size(name, value) for name, value in numbers.items()}
    for name in related.keys() & numbers.keys():
        for part in atoms(related[name]):  # what a symbol that has to be a multiple is a multiple of is no symbol
            if part.name not in values:
                rest = int(in_terms_of(related[name], values | {part.name: 1}))
                if rest == 0 or numbers[name] % rest:
                    return None
                values[part.name] = SymbolicDim((((part._replace(value=numbers[name] // rest),), 1),))
    found = {name: in_terms_of(value, values) for name, value in related.items()}
    return found if all(int(value) == numbers.get(name, int(value)) for name, value in found.items()) else None
