"""GraphDef -> tensor IR: every node becomes IR values or stays a TensorFlow op, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from tf_stitch.errors import SourceLoc, TypeRuleError, UnsupportedError
from tf_stitch.frontend.tensorflow import legalize, static_arithmetic, static_rules, static_values
from tf_stitch.frontend.tensorflow.attributes import NodeAttrs
from tf_stitch.frontend.tensorflow.broadcast_dimensions import broadcast_specs
from tf_stitch.frontend.tensorflow.control_flow import BRANCHES_OR_LOOPS
from tf_stitch.frontend.tensorflow.dtypes import DT_RESOURCE, enum_name, of_enum
from tf_stitch.frontend.tensorflow.finer_shapes import finer_specs
from tf_stitch.frontend.tensorflow.imported_graph import (
    ImportedGraph,
    ImportedNode,
    canonical_tensor,
    entrances,
    producer_of,
    topological,
)
from tf_stitch.frontend.tensorflow.loop_shapes import GivenUp, LoopShapes, finer
from tf_stitch.frontend.tensorflow.matmul_scope import (
    NO_MATMULS,
    NOT_FOR_KERNELS,
    TOO_LARGE,
    Matmuls,
    Scope,
    are_for_kernels,
    are_small,
)
from tf_stitch.frontend.tensorflow.node_context import (
    NodeContext,
    Operand,
    TensorSpec,
    fresh_symbol,
    is_known,
)
from tf_stitch.frontend.tensorflow.registry import BARRIERS, LEGALIZATIONS, Legalization
from tf_stitch.frontend.tensorflow.variable_ops import VARIABLES
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node
from tf_stitch.ir.types import Dim, Shape, Symbol

TypesOf: TypeAlias = Callable[[str], list[tuple[int, tuple[int, ...] | None]]]
"""Node name -> per output (tensorflow.DataType, dims or None). A negative dim is unknown; equal ones below -1
are equal sizes, as Grappler infers them."""

__all__ = ["SHAPE_ARITHMETIC", "ImportedGraph", "ImportedNode", "TensorSpec", "TypesOf", "canonical_tensor",
           "import_graph"]

SHAPE_ARITHMETIC = "shape arithmetic, evaluated at rewrite time"
_MAX_SHAPE_VALUE = 64  # elements; a longer integer tensor is data, not a shape
# Importing these registers every legalisation and every rule of shape arithmetic.
_RULES = (legalize, static_arithmetic, static_rules)
DATA_SIZED = frozenset({"Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "Where", "DynamicPartition",
                        "ListDiff", "StringSplit", "StringSplitV2", "SparseFillEmptyRows", "DecodeCSV",
                        "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5", "DecodeRaw",
                        "ComputeAccidentalHits"})
_PASS_HANDLE = frozenset({"Identity", "Enter", "Snapshot", "Switch"})
_ONE_SIZE_FOR_SEVERAL = frozenset({"DynamicPartition", "SparseSplit"})
"""Ops whose shape functions give all results the same unknown size (data_flow_ops.cc, sparse_ops.cc)."""


def import_graph(graph_def: Any, types_of: TypesOf, library_on: Scope = NO_MATMULS,
                 own: Mapping[str, Legalization] | None = None, equal: Mapping[Symbol, Symbol] | None = None
                 ) -> ImportedGraph:
    """Imports a GraphDef.

    Args:
        types_of: types of every node's outputs.
        library_on: on which device types which matmuls become IR too, and convolutions.
        own: how ops become IR that this graph alone has.
        equal: other names of sizes.

    Raises:
        UnsupportedError: the graph has a cycle that is no loop, or an input that is no node.
    """
    given_up: dict[str, frozenset[int] | None] = {}
    while True:
        importer = _Importer(graph_def, types_of, library_on, own or {}, equal or {}, given_up)
        graph = importer.run()
        broken = importer.loops.broken()
        if not broken:
            return graph
        given_up |= broken


class _Importer:
    def __init__(self, graph_def: Any, types_of: TypesOf, library_on: Scope, own: Mapping[str, Legalization],
                 equal: Mapping[Symbol, Symbol], given_up: GivenUp) -> None:
        self._defs: dict[str, Any] = {node.name: node for node in graph_def.node}
        self._types_of, self._library_on, self._equal = types_of, library_on, equal
        self._legalizations = {**LEGALIZATIONS, **own}
        self._graph = ImportedGraph()
        self._statics = self._graph.statics
        self._specs: dict[str, tuple[TensorSpec, ...]] = {}
        self._enums: dict[str, tuple[int, ...]] = {}
        self._handles = self._graph.handles
        self._variable_shapes = self._graph.variable_shapes
        self._shape_nodes: set[str] = set()
        self._entrances = entrances(self._defs)
        self.loops = LoopShapes(self._defs, self._shape, self._size, given_up)

    def run(self) -> ImportedGraph:
        order = list(topological(self._defs))
        confused = self._confused_sizes(order)
        for node in order:
            types = [(enum, dims and tuple(-1 if d in confused else d for d in dims))
                     for enum, dims in self._types_of(node.name)]
            self._specs[node.name] = tuple(self._named(_spec(node.name, i, *t)) for i, t in enumerate(types))
            self._enums[node.name] = tuple(enum for enum, _ in types)
            self._trace_handle(node)
        for node in order:
            imported = self._import(node)
            self._graph.nodes[node.name] = imported
            for index, value in enumerate(imported.outputs):
                if value is not None:
                    self._graph.owner.setdefault(value, f"{node.name}:{index}")
        self._graph.constant_handles = self._constant_handles(order)
        self._graph.data_sizes = self._data_sizes(order)
        return self._graph

    def _confused_sizes(self, order: list[Any]) -> frozenset[int]:
        """TensorFlow's numbers of sizes that it takes for one though they differ."""
        def sizes(name: str) -> set[int]:
            return {d for _, dims in self._types_of(name) for d in dims or () if d < 0}

        return frozenset(size for node in order if node.op in _ONE_SIZE_FOR_SEVERAL
                         for size in sizes(node.name).difference(*(sizes(producer_of(t)) for t in node.input)))

    def _data_sizes(self, order: list[Any]) -> frozenset[str]:
        """Symbols that first show up behind an op whose result has as many elements as its data say."""
        return frozenset(d.name for node in order if node.op in DATA_SIZED
                         for spec in self._specs[node.name] for d in spec.shape or () if isinstance(d, Symbol))

    def _constant_handles(self, order: list[Any]) -> frozenset[str]:
        """Handles that go into reads alone. A loop's or a branch's graph may run its reads at different times."""
        if any(node.op in BRANCHES_OR_LOOPS for node in order):
            return frozenset()
        read: set[str] = set()
        other: set[str] = set()
        for node in order:
            for tensor in (canonical_tensor(i) for i in node.input if not i.startswith("^")):
                name, _, index = tensor.rpartition(":")
                if int(index) < len(self._enums[name]) and self._enums[name][int(index)] == DT_RESOURCE \
                        and node.op not in _PASS_HANDLE:
                    (read if node.op == "ReadVariableOp" else other).add(self._handles.get(tensor, tensor))
        return frozenset(read - other)

    def _trace_handle(self, node: Any) -> None:
        """Follows a handle through Identity, into loops and branches; notes the shapes variables show when read."""
        data = [canonical_tensor(i) for i in node.input if not i.startswith("^")]
        if DT_RESOURCE in self._enums[node.name] and node.op in _PASS_HANDLE and data:
            for index in range(len(self._enums[node.name])):
                self._handles[f"{node.name}:{index}"] = self._handles.get(data[0], data[0])
        if node.op == "ReadVariableOp":
            handle = self._handles.get(data[0], data[0])
            shape = self._specs[node.name][0].shape
            known = self._variable_shapes.get(handle)
            if known is None or (shape is not None and _unknown_dims(shape) < _unknown_dims(known)):
                self._variable_shapes[handle] = shape
        if node.op in (*VARIABLES, "_Arg") and (whole := NodeAttrs(node).variable_shape()) is not None:
            self._variable_shapes[f"{node.name}:0"] = whole

    def _import(self, node: Any) -> ImportedNode:
        inputs = tuple(canonical_tensor(i) for i in node.input if not i.startswith("^"))
        self._specs[node.name] = self.loops.refine(node, self._specs[node.name])
        controls = (*(i[1:] for i in node.input if i.startswith("^")), *self._entrances.get(node.name, ()))
        ctx = self._context(node, inputs)
        theirs = ctx.output_specs = self._specs[node.name]
        ctx.output_specs = self._specs[node.name] = tuple(map(self._named, finer_specs(ctx)))
        for index, value in enumerate(static_values.evaluate(ctx)):
            if value is not None:
                self._statics[f"{node.name}:{index}"] = value
        reason = self._why_opaque(node, ctx)
        outputs: tuple[Node | None, ...] = ()
        if reason is None:
            try:
                outputs = _as_tuple(self._legalizations[node.op].function(ctx))
                _cross_check(ctx, outputs)
                reason = self._why_large(node, ctx, outputs)
            except (UnsupportedError, TypeRuleError) as error:
                reason = error.message
        if reason is not None:
            if self._is_library(node) and not _are_static(ctx.output_specs):
                ctx.output_specs = _legalized_specs(ctx)
            ctx.output_specs = self._specs[node.name] = broadcast_specs(ctx)
            self._by_our_names(theirs, [spec.shape for spec in ctx.output_specs])
            weight = 0 if reason is SHAPE_ARITHMETIC or node.op in _FREE else 1
            return ImportedNode(node.name, node.op, node.device, inputs, controls, self._opaque(ctx), reason,
                                weight=weight)
        self._by_our_names(theirs, [None if value is None else value.type.shape for value in outputs])
        return ImportedNode(node.name, node.op, node.device, inputs, controls, outputs, None,
                            tuple(dict.fromkeys(ctx.reads)), ctx.writes, self._weight(ctx, outputs),
                            tuple(ctx.private), tuple(ctx.ignored),
                            self._is_library(node) and not self._by_kernels(node), tuple(ctx.checks))

    def _named(self, spec: TensorSpec) -> TensorSpec:
        """The type with sizes by their other names."""
        if spec.shape is None or not self._equal:
            return spec
        return TensorSpec(spec.dtype, tuple(self._equal.get(d, d) if isinstance(d, Symbol) else d for d in spec.shape))

    def _by_our_names(self, specs: Sequence[TensorSpec], shapes: Sequence[Shape | None]) -> None:
        """Sizes of a tensor that TensorFlow calls by other names are so called from here on."""
        for spec, shape in zip(specs, shapes, strict=True):
            if spec.shape is not None and shape is not None and len(spec.shape) == len(shape):
                self.loops.call(dict(zip(spec.shape, shape, strict=True)))

    def _context(self, node: Any, inputs: tuple[str, ...]) -> NodeContext:
        operands = tuple(
            Operand(t, self._value(t), self._spec(t), self._statics.get(t), self._handles.get(t, t)) for t in inputs)
        return NodeContext(node.name, node.op, device_type(node.device) == "GPU", NodeAttrs(node), operands,
                           self._specs[node.name], Builder(SourceLoc(node.name, node.op)), self._variable_shapes.get)

    def _why_opaque(self, node: Any, ctx: NodeContext) -> str | None:
        """The reason that needs no look at the legalisation itself, or None."""
        if self._is_shape_arithmetic(node, ctx):
            self._shape_nodes.add(node.name)
            return SHAPE_ARITHMETIC
        if node.op in BARRIERS:
            return BARRIERS[node.op]
        if node.op not in self._legalizations:
            return f"{node.op} has no legalisation"
        if not self._has_library(node):
            return f"{node.op} is a library call"
        if device_type(node.device) not in ("", "CPU", "GPU"):
            return f"placed on {node.device}"
        if ctx.attrs.is_for_xla():
            return "XLA compiles it"
        unknown = ctx.attrs.unknown()
        if unknown is not None:
            return f"attribute {unknown} is not known to this TensorFlow"
        for index, (spec, enum) in enumerate(zip(ctx.output_specs, self._enums[node.name], strict=True)):
            if spec.dtype is None and enum != DT_RESOURCE:
                return f"dtype {enum_name(enum)} is not in the IR"
            if enum == DT_RESOURCE:
                return f"output {index} is a resource"
        return None

    def _is_library(self, node: Any) -> bool:
        return node.op in self._legalizations and self._legalizations[node.op].library

    def _has_library(self, node: Any) -> bool:
        """Whether regions at this place may hold the call of a node; True of one that is no call."""
        if self._legalizations[node.op].convolution:
            return self._matmuls(node) is Matmuls.ALL_AND_CONVOLUTIONS or self._by_kernels(node)
        return not self._is_library(node) or self._matmuls(node) is not None

    def _by_kernels(self, node: Any) -> bool:
        """Whether regions at this place have no library for a convolution, and may have kernels."""
        device = device_type(node.device) or "CPU"
        return (device == "CPU" and self._legalizations[node.op].kernels
                and self._matmuls(node) not in (None, Matmuls.ALL_AND_CONVOLUTIONS))

    def _matmuls(self, node: Any) -> Matmuls | None:
        return self._library_on.get(device_type(node.device) or "CPU")

    def _why_large(self, node: Any, ctx: NodeContext, outputs: tuple[Node | None, ...]) -> str | None:
        """The reason that keeps a matmul out of regions which hold small ones alone, or None."""
        given = {o.node for o in ctx.operands if o.node is not None}
        if self._by_kernels(node):
            mine = are_for_kernels((v for v in outputs if v is not None), given)
            return None if mine else f"{node.op} {NOT_FOR_KERNELS}"
        if not self._is_library(node) or self._matmuls(node) is not Matmuls.SMALL:
            return None
        small = are_small((v for v in outputs if v is not None), given)
        return None if small else f"{node.op} {TOO_LARGE}"

    def _is_shape_arithmetic(self, node: Any, ctx: NodeContext) -> bool:
        """All results are known, and come from shapes: whoever needs them has them already."""
        values = [self._statics.get(f"{node.name}:{i}") for i in range(len(ctx.output_specs))]
        if node.op in static_values.SHAPE_OPS:
            return True
        return (node.op == "Size" or self._from_shapes(ctx)) and bool(values) and all(
            v is not None and is_known(v) and v.size <= _MAX_SHAPE_VALUE for v in values)

    def _from_shapes(self, ctx: NodeContext) -> bool:
        return any(o.tensor.rpartition(":")[0] in self._shape_nodes for o in ctx.operands)

    def _weight(self, ctx: NodeContext, outputs: tuple[Node | None, ...]) -> int:
        """Shape arithmetic that symbols kept from being evaluated is scalars: it costs nothing either."""
        if self._from_shapes(ctx) and outputs and all(
                o is not None and o.type.dtype.is_integer and o.type.rank <= 1 for o in outputs):
            self._shape_nodes.add(ctx.name)
            return 0
        return self._legalizations[ctx.op].weight

    def _opaque(self, ctx: NodeContext) -> tuple[Node | None, ...]:
        return tuple(
            None if s.dtype is None or s.shape is None else ctx.b.input(f"{ctx.name}:{i}", s.dtype, s.shape)
            for i, s in enumerate(ctx.output_specs))

    def _value(self, tensor: str) -> Node | None:
        name, _, _ = tensor.rpartition(":")
        return self._graph.value(tensor) if name in self._graph.nodes else None  # not yet: a loop's back edge

    def _shape(self, tensor: str) -> Shape | None:
        """Of a node that is imported."""
        if tensor in self._statics:
            return self._statics[tensor].shape
        value = self._value(tensor)
        if value is not None:
            return value.type.shape
        return self._spec(tensor).shape if tensor.rpartition(":")[0] in self._graph.nodes else None

    def _size(self, tensor: str) -> Dim | None:
        value = self._statics.get(tensor)
        size = None if value is None or value.size != 1 else value.flat[0]
        return size if isinstance(size, int | Symbol) else None

    def _spec(self, tensor: str) -> TensorSpec:
        name, _, index = tensor.rpartition(":")
        specs = self._specs[name]
        return specs[int(index)] if int(index) < len(specs) else TensorSpec(None, None)


_FREE = frozenset({"Const", "Identity", "IdentityN", "NoOp", "Placeholder", "_Arg", "_Retval", *VARIABLES, "Reshape",
                   "Squeeze", "ExpandDims", "ReadVariableOp", "StopGradient", "Assert"})


def _as_tuple(outputs: Node | Sequence[Node | None]) -> tuple[Node | None, ...]:
    return (outputs,) if isinstance(outputs, Node) else tuple(outputs)


def _are_static(specs: Sequence[TensorSpec]) -> bool:
    return all(spec.shape is not None and not _unknown_dims(spec.shape) for spec in specs)


def _legalized_specs(ctx: NodeContext) -> tuple[TensorSpec, ...]:
    """Types of a library call that stays TensorFlow's, with the sizes that its legalisation finds."""
    try:
        outputs = _as_tuple(LEGALIZATIONS[ctx.op].function(ctx))
        _cross_check(ctx, outputs)
    except (UnsupportedError, TypeRuleError):
        return ctx.output_specs
    return tuple(spec if value is None else finer(spec, value.type.shape)
                 for spec, value in zip(ctx.output_specs, outputs, strict=True))  # fmt: skip


def _cross_check(ctx: NodeContext, outputs: tuple[Node | None, ...]) -> None:
    """Raises UnsupportedError if a result contradicts TensorFlow's own inference."""
    if len(outputs) != len(ctx.output_specs):
        raise UnsupportedError(f"{len(outputs)} results for {len(ctx.output_specs)} outputs")
    for index, (value, spec) in enumerate(zip(outputs, ctx.output_specs, strict=True)):
        if value is None:
            continue
        if spec.dtype is not value.type.dtype:
            raise UnsupportedError(f"output {index} is {spec.dtype}, the IR's is {value.type.dtype}")
        if spec.shape is None:
            continue
        fits = len(spec.shape) == value.type.rank and all(
            a == b or isinstance(a, Symbol) or isinstance(b, Symbol)
            for a, b in zip(spec.shape, value.type.shape, strict=True))
        if not fits:
            raise UnsupportedError(f"output {index} has the shape {_text(spec.shape)}, the IR's is {value.type}")


def _spec(node: str, index: int, enum: int, dims: tuple[int, ...] | None) -> TensorSpec:
    if dims is None:
        return TensorSpec(of_enum(enum), None)

    def dim(axis: int, size: int) -> Dim:
        if size >= 0:
            return size
        return fresh_symbol(node, f"{index}_{axis}") if size == -1 else Symbol(f"s{-size}")

    return TensorSpec(of_enum(enum), tuple(dim(axis, size) for axis, size in enumerate(dims)))


def _text(shape: Shape) -> str:
    return f"[{','.join(map(str, shape))}]"


def _unknown_dims(shape: Shape) -> int:
    return sum(isinstance(d, Symbol) for d in shape)


@cache
def device_type(device: str) -> str:
    """ "/job:localhost/replica:0/task:0/device:GPU:0" -> "GPU"; "" if the device names none."""
    for part in device.split("/"):
        fields = part.split(":")
        if fields[0].lower() == "device" and len(fields) > 1:
            return fields[1].upper()
        if fields[0].lower() in ("cpu", "gpu"):
            return fields[0].upper()
    return ""
