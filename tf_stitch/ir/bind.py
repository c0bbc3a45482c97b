"""Run-time shapes into a symbolic graph: the result is static throughout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tf_stitch.errors import BindError, TypeRuleError
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Shape, Symbol, TensorType, substitute, unify


def bind(graph: TensorGraph, shapes: Mapping[str, Sequence[int]]) -> TensorGraph:
    """The graph with every symbol replaced.

    Args:
        shapes: a shape per input key and variable handle.

    Raises:
        BindError: a shape contradicts the graph, or a symbol is left that no input decides.
    """
    env: dict[str, int] = {}
    for node in graph.inputs():
        key = node.attrs.key if isinstance(node.attrs, oa.InputAttrs) else _handle(node)
        try:
            unify(node.type.shape, shapes[key], env)
        except BindError as error:
            raise BindError(error.message, node.loc) from None
    new: dict[Node, Node] = {}
    for node in graph.nodes():
        operands = tuple(new[o] for o in node.operands)
        attrs = _bind_attrs(node, operands, env)
        try:
            new[node] = make_node(node.kind, operands, attrs, node.loc)
        except TypeRuleError as error:
            raise BindError(error.message, node.loc) from None
        _learn(node, new[node].type, env)
    return TensorGraph(graph.name, [(key, new[node]) for key, node in graph.outputs])


def unbound_symbols(graph: TensorGraph) -> dict[str, Node]:
    """Symbols that no input decides, each with the first node that needs it."""
    known = {d.name for n in graph.inputs() for d in n.type.shape if isinstance(d, Symbol)}
    unbound: dict[str, Node] = {}
    for node in graph.nodes():
        missing = [d.name for d in _attr_shape(node.attrs) if isinstance(d, Symbol) and d.name not in known]
        if node.kind is OpKind.RESHAPE and len(missing) == 1:
            known.add(missing[0])
            continue
        for name in missing:
            unbound.setdefault(name, node)
    return unbound


def _handle(node: Node) -> str:
    assert isinstance(node.attrs, oa.VariableAttrs)
    return node.attrs.handle


def _attr_shape(attrs: oa.Attrs) -> Shape:
    if isinstance(attrs, oa.ShapeAttrs | oa.ExtentAttrs | oa.IotaAttrs):
        return attrs.shape
    return attrs.sizes if isinstance(attrs, oa.SliceAttrs) else ()


def _bind_attrs(node: Node, operands: tuple[Node, ...], env: dict[str, int]) -> oa.Attrs:
    attrs = node.attrs
    if isinstance(attrs, oa.InputAttrs | oa.VariableAttrs):
        return replace(attrs, type=TensorType(attrs.type.dtype, substitute(attrs.type.shape, env)))
    if isinstance(attrs, oa.SliceAttrs):
        return replace(attrs, sizes=_require_static(substitute(attrs.sizes, env), node))
    if isinstance(attrs, oa.ShapeAttrs | oa.ExtentAttrs | oa.IotaAttrs):
        shape = substitute(attrs.shape, env)
        if node.kind is OpKind.RESHAPE:
            shape = _infer_reshape(shape, operands[0].type.numel, env, node)
        return replace(attrs, shape=_require_static(shape, node))
    return attrs


def _infer_reshape(shape: Shape, numel: int, env: dict[str, int], node: Node) -> Shape:
    unknown = {d.name for d in shape if isinstance(d, Symbol)}
    if len(unknown) != 1 or sum(isinstance(d, Symbol) for d in shape) != 1:
        return shape
    known = math.prod(d for d in shape if isinstance(d, int))
    if known == 0 or numel % known:
        raise BindError(f"{numel} elements cannot have the shape {shape}", node.loc)
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
    for dim, size in zip(old.type.shape, new.dims, strict=True):
        if isinstance(dim, Symbol):
            known = env.setdefault(dim.name, size)
            if known != size:
                raise BindError(f"dimension {dim} is {size} at run time where {known} was expected", old.loc)
        elif dim != size:
            raise BindError(f"dimension {size} at run time where the rewrite saw {dim}", old.loc)
