"""Run-time shapes into a symbolic graph: the result is static throughout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tf_stitch.errors import BindError, TypeRuleError
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.graph import Node, TensorGraph, key_of, make_node
from tf_stitch.ir.loops import loop_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, atoms, solve, solve_exactly, solve_multiple
from tf_stitch.ir.types import Shape, Symbol, TensorType, static_shape, substitute, unify


def bind(graph: TensorGraph, shapes: Mapping[str, Sequence[int]]) -> TensorGraph:
    """The graph with every symbol replaced.

    Args:
        shapes: a shape per input key and variable handle.

    Raises:
        BindError: a shape contradicts the graph, or a symbol is left that no input decides.
    """
    return bound_graph(graph, bind_nodes(graph.nodes(), symbol_sizes(graph, shapes), {}))


def symbol_sizes(graph: TensorGraph, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Sizes of the symbols that the shapes of inputs and variables decide.

    Raises:
        BindError: a shape contradicts the graph.
    """
    env: dict[str, int] = {}
    for node in graph.inputs():
        key = key_of(node)
        try:
            unify(node.type.shape, shapes[key], env)
        except BindError as error:
            raise BindError(error.message, node.loc) from None
    return env


class Related(Exception):
    """Two sizes that are equal decide a third."""

    def __init__(self, name: str, value: int) -> None:
        super().__init__(name)
        self.name, self.value = name, value


def _equal(a: int, b: int) -> bool:
    """Whether two sizes are equal; Related if they are only because of a relation not yet known."""
    if a == b or int(a) != int(b):
        return a == b
    relation = solve(a, b)
    if relation is None:
        return False
    raise Related(*relation)


def bind_nodes(nodes: Sequence[Node], env: dict[str, int], new: dict[Node, Node]) -> dict[Node, Node]:
    """What becomes of each node.

    Args:
        nodes: operands first.
        env: sizes of symbols; gets those that nodes decide.
        new: of nodes that are bound already; gets the others.

    Raises:
        BindError: see bind.
        Related: two sizes are equal by a relation that is not in `env`; what came before is in `new`.
    """
    loops: dict[tuple[object, ...], list[Node]] = {}
    for node in nodes:
        if node in new:
            continue
        operands = tuple(new[o] for o in node.operands)
        if isinstance(node.attrs, oa.LoopAttrs):
            results = loops.get((node.attrs.loop, operands)) or _inlined(node, operands)
            loops[node.attrs.loop, operands] = results
            made = results[node.attrs.output]
        else:
            attrs = _bind_attrs(node, operands, env)
            _relate(node.kind, operands, attrs)
            try:
                made = make_node(node.kind, operands, attrs, node.loc)
            except TypeRuleError as error:
                raise BindError(error.message, node.loc) from None
        _learn(node, made.type, env)
        new[node] = made
    return new


def bound_graph(graph: TensorGraph, new: Mapping[Node, Node]) -> TensorGraph:
    """The graph of bound nodes."""
    return TensorGraph(graph.name, [(key, new[node]) for key, node in graph.outputs])


def _inlined(node: Node, operands: tuple[Node, ...]) -> list[Node]:
    """The results of a loop for the sizes at hand."""
    if any(isinstance(d, SymbolicDim) for o in operands for d in o.type.dims):
        raise BindError("a loop is unrolled for one length", node.loc)
    graph = loop_of(node).unrolled([o.type for o in operands])
    new: dict[Node, Node] = {}
    for inner in graph.nodes():
        if isinstance(inner.attrs, oa.InputAttrs):
            new[inner] = operands[int(inner.attrs.key.removeprefix("i"))]
        else:
            new[inner] = make_node(inner.kind, [new[o] for o in inner.operands], inner.attrs, inner.loc)
    results = {key: new[result] for key, result in graph.outputs}
    return [results[f"o{i}"] for i in range(len(results))]


def _relate(kind: OpKind, operands: tuple[Node, ...], attrs: oa.Attrs) -> None:
    """Finds out by what is computed from sizes which of them are one: those that a product sums over, and those that a
    broadcast leaves as they are. What does not fit is for the type rules to refuse."""
    if isinstance(attrs, oa.DotAttrs):
        (*left, m, k), (*right, other_k, n) = (o.type.dims for o in operands)
        k, other_k = m if attrs.transpose_a else k, n if attrs.transpose_b else other_k
        for a, b in zip((*left, k), (*right, other_k), strict=False):
            _equal(a, b)
    elif kind is OpKind.CONVOLUTION_FILTER_GRAD:
        _equal(operands[0].type.dims[0], operands[1].type.dims[0])
    elif kind is OpKind.BROADCAST and isinstance(attrs, oa.ShapeAttrs):
        for have, want in zip(reversed(operands[0].type.dims), reversed(attrs.shape), strict=False):
            if have != 1 and isinstance(want, int):
                _equal(have, want)


def _relate_reshape(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    """Finds out which sizes of a reshape are one: by the number of all elements where that decides one of them, else by
    the axes."""
    have, want = math.prod(old), math.prod(new)
    if have == want or int(have) != int(want):
        return  # nothing is left to find out, or the type rule refuses it
    relation = solve_exactly(have, want)
    if relation is not None:
        raise Related(*relation)
    _relate_axes(old, new)
    _equal(have, want)


def _relate_axes(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    """Axes that a reshape of the shape at hand keeps, splits or merges are taken to be kept, split or merged by it
    whatever the shape: the number of all elements alone would not tell which of several sizes are one. An axis that
    happens to have one element may belong to either of its neighbours, so that no size is concluded to be a number."""
    i = j = 0
    while i < len(old) and j < len(new):
        a, b = old[i], new[j]
        i, j = i + 1, j + 1
        while int(a) != int(b):
            if int(a) < int(b) and i < len(old):
                a, i = a * old[i], i + 1
            elif int(a) > int(b) and j < len(new):
                b, j = b * new[j], j + 1
            else:
                return  # of different sizes, or without elements
        relation = None if a == b else solve(a, b)
        if relation is not None and atoms(relation[1]):
            raise Related(*relation)


def unbound_symbols(graph: TensorGraph) -> dict[str, Node]:
    """Symbols that no input decides, each with the first node that needs it."""
    known = {d.name for n in graph.inputs() for d in n.type.shape if isinstance(d, Symbol)}
    unbound: dict[str, Node] = {}
    for node in graph.nodes():
        if isinstance(node.attrs, oa.LoopAttrs):
            known.update(d.name for d in node.type.shape if isinstance(d, Symbol))
        missing = [d.name for d in attr_shape(node.attrs) if isinstance(d, Symbol) and d.name not in known]
        if node.kind is OpKind.RESHAPE and len(missing) == 1:
            known.add(missing[0])
            continue
        for name in missing:
            unbound.setdefault(name, node)
    return unbound


def attr_shape(attrs: oa.Attrs) -> Shape:
    """Sizes that an op has beside those of its operands."""
    if isinstance(attrs, oa.ShapeAttrs | oa.ExtentAttrs | oa.IotaAttrs | oa.ScatterAttrs):
        return attrs.shape
    return attrs.sizes if isinstance(attrs, oa.SliceAttrs) else ()


def _bind_attrs(node: Node, operands: tuple[Node, ...], env: dict[str, int]) -> oa.Attrs:
    attrs = node.attrs
    if isinstance(attrs, oa.InputAttrs | oa.VariableAttrs):
        return replace(attrs, type=TensorType(attrs.type.dtype, substitute(attrs.type.shape, env)))
    if isinstance(attrs, oa.SliceAttrs):
        return replace(attrs, sizes=_require_static(substitute(attrs.sizes, env), node))
    if isinstance(attrs, oa.ShapeAttrs | oa.ExtentAttrs | oa.IotaAttrs | oa.ScatterAttrs):
        shape = substitute(attrs.shape, env)
        if node.kind is OpKind.RESHAPE:
            shape = _infer_reshape(shape, operands[0].type.numel, env, node)
            if all(isinstance(d, int) for d in shape):
                _relate_reshape(operands[0].type.dims, static_shape(shape))
        return replace(attrs, shape=_require_static(shape, node))
    return attrs


def _infer_reshape(shape: Shape, numel: int, env: dict[str, int], node: Node) -> Shape:
    unknown = {d.name for d in shape if isinstance(d, Symbol)}
    if len(unknown) != 1 or sum(isinstance(d, Symbol) for d in shape) != 1:
        return shape
    known = math.prod(d for d in shape if isinstance(d, int))
    if known == 0 or numel % known:
        raise BindError(f"{numel} elements cannot have the shape {shape}", node.loc)
    relation = solve_multiple(numel, known)
    if relation is not None:
        raise Related(*relation)
    env[unknown.pop()] = numel // known
    return substitute(shape, env)


def _require_static(shape: Shape, node: Node) -> Shape:
    for dim in shape:
        if isinstance(dim, Symbol):
            raise BindError(f"size {dim} is decided by no input of the region", node.loc)
    return shape


def _learn(old: Node, new: TensorType, env: dict[str, int]) -> None:
    """Symbols that a type rule made up earlier are bound by what it gives now; a broadcast that met two
    different symbols is checked here, since the rule took them to be equal."""
    for dim, now in zip(old.type.shape, new.dims, strict=True):
        if isinstance(dim, Symbol):
            known = env.setdefault(dim.name, now)
            if not _equal(known, now):
                raise BindError(f"dimension {dim} is {now} at run time where {known} was expected", old.loc)
        elif not _equal(dim, now):
            raise BindError(f"dimension {now} at run time where the rewrite saw {dim}", old.loc)
