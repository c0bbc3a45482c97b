"""Random graphs some of whose sizes change."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from tests.differential.generator import GraphMaker, Value
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.symbolic_dims import SymbolicDim, atoms, in_terms_of, size
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.types import Shape, TensorType
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.planning.planner import PlanOptions

SIZES = (1, 2, 3, 4, 5, 8, 12, 17, 32, 33)


class SizedGraphMaker(GraphMaker):
    """Draws a graph whose inputs have the given sizes among their dimensions; movement follows the sizes."""

    def __init__(self, rng: random.Random, max_elements: int, sizes: list[int]) -> None:
        super().__init__(rng, max_elements)
        self.sizes = sizes

    def shape(self) -> tuple[int, ...]:
        dims = list(super().shape())
        for axis in range(len(dims)):
            size = self.one(self.sizes)
            if self.number(0, 1) and math.prod(dims) // dims[axis] * size <= self.max_elements:
                dims[axis] = size
        return tuple(dims)

    def fresh(self, dtype: DType, shape: tuple[int, ...]) -> Value:
        """No constant: its shape would be numbers."""
        if not any(isinstance(d, SymbolicDim) for d in shape):
            return super().fresh(dtype, shape)
        value = Value(self.b.input(f"x{len(self.values)}:0", dtype, shape), True)
        self.values.append(value)
        return value

    def _reshape(self, v: Value) -> Node:
        """Two axes become one, or one of length 1 is put in between."""
        at = self.number(0, len(v.dims) - 1)
        if at and self.number(0, 2):
            return self.b.reshape(v.node, (*v.dims[:at - 1], v.dims[at - 1] * v.dims[at], *v.dims[at + 1:]))
        return self.b.reshape(v.node, (*v.dims[:at], 1, *v.dims[at:]))

    def _broadcast(self, v: Value) -> Node:
        if any(isinstance(d, SymbolicDim) for d in v.dims):
            return self.b.broadcast(v.node, (2, *v.dims))
        return super()._broadcast(v)

    def _slice(self, v: Value) -> Node:
        if any(isinstance(d, SymbolicDim) for d in v.dims):
            begin = [self.number(0, min(1, d - 1)) for d in v.dims]
            left = tuple(d - b for d, b in zip(v.dims, begin, strict=True))
            return self.b.slice(v.node, begin, [1] * len(begin), left)
        return super()._slice(v)

    def _gather(self, v: Value) -> Node:
        return self._transpose(v) if isinstance(v.dims[0], SymbolicDim) else super()._gather(v)


class Case:
    """A graph with sizes `n` and `m`, for several pairs of them; dimensions are multiples of n, and m."""

    def __init__(self, seed: int, pairs: list[tuple[int, int]], steps: int, elements: int, multiple: int = 1) -> None:
        self.graph = SizedGraphMaker(random.Random(seed), elements,
                                     [size("n", 3) * multiple, size("m", 5)]).graph(steps)
        self.pairs = pairs

    def at(self, n: int, m: int, changing: bool) -> TensorGraph:
        """The graph for one pair, as sizes that change or as numbers."""
        return resized(self.graph, {"n": size("n", n), "m": size("m", m)} if changing else {"n": n, "m": m})

    def compiled(self, n: int, m: int, device: DeviceSpec, plans: PlanMemory) -> tuple[TensorGraph, CompiledRegion]:
        """The graph as numbers, and the region compiled for sizes that change.

        Raises:
            TypeRuleError, ScheduleError: it has no meaning for these sizes, or no kernel for sizes that change.
        """
        numbers, graph = self.at(n, m, changing=False), self.at(n, m, changing=True)
        verify_graph(numbers, static=True)
        region = compile_region(graph, *arguments_of(graph), CompileOptions(device, PlanOptions("greedy"), plans=plans))
        for kernel in region.kernels:
            verify_program(kernel.program)
        return numbers, region

    def __repr__(self) -> str:
        return f"{self.pairs}\n{format_graph(self.graph)}"


def resized(graph: TensorGraph, sizes: dict[str, int]) -> TensorGraph:
    """The graph with other sizes, by the names of their atoms.

    Raises:
        TypeRuleError: the graph is not right for these.
    """
    new: dict[Node, Node] = {}
    for node in graph.nodes():
        new[node] = make_node(node.kind, [new[o] for o in node.operands], _attrs(node.attrs, sizes), node.loc)
    return TensorGraph(graph.name, [(key, new[n]) for key, n in graph.outputs])


def _attrs(attrs: oa.Attrs, sizes: dict[str, int]) -> oa.Attrs:
    if isinstance(attrs, oa.InputAttrs | oa.VariableAttrs):
        return replace(attrs, type=TensorType(attrs.type.dtype, _shape(attrs.type.shape, sizes)))
    if isinstance(attrs, oa.ShapeAttrs | oa.ExtentAttrs | oa.IotaAttrs | oa.ScatterAttrs):
        return replace(attrs, shape=_shape(attrs.shape, sizes))
    return replace(attrs, sizes=_shape(attrs.sizes, sizes)) if isinstance(attrs, oa.SliceAttrs) else attrs


def _shape(shape: Shape, sizes: dict[str, int]) -> Shape:
    assert all(isinstance(d, int) and all(a.name in sizes for a in atoms(d)) for d in shape)
    return tuple(in_terms_of(d, sizes) for d in shape if isinstance(d, int))
