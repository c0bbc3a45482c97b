"""While loops whose length is a size of some tensor: one node of the graph each, unrolled when a region is built.

Such a loop cannot be unrolled before its sizes are known. `loop_folding` puts a StitchLoop in its place, which is no op
of TensorFlow's but holds the loop's nodes; its legalisation gives IR that `ir.bind` unrolls for the sizes at hand. What
no region took is put back by `folded_loop.put_back_loops`. Reads of variables are moved out of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.errors import BindError, StitchError
from tf_stitch.frontend.tensorflow.dtypes import to_enum
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import SHAPE_ARITHMETIC, device_type
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import Legalization
from tf_stitch.graph.clustering.region_graph import cut_region
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.loops.folded_loop import STITCH_LOOP, FoldedLoop, FoldedLoops, InputDimension
from tf_stitch.graph.loops.loop_unrolling import unroll_loops
from tf_stitch.graph.state import GraphState
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.loops import Unrollable
from tf_stitch.ir.op_attrs import InputAttrs, LoopAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import TensorType

MAX_LENGTHS = 16
"""Lengths that one loop is unrolled for, or found too long for: each is planned and compiled again, which takes
seconds."""

_ALL = {"CPU": Matmuls.ALL, "GPU": Matmuls.ALL}
_LEAVES = frozenset({"Placeholder", "Const", "NoOp"})


@dataclass(frozen=True, eq=False)
class SizedLoop(Unrollable):
    """A folded loop that can be unrolled for the sizes of its inputs."""

    folded: FoldedLoop
    _made: dict[tuple[TensorType, ...], TensorGraph | str] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizedLoop) and self.folded.digest == other.folded.digest

    def __hash__(self) -> int:
        return hash(self.folded.digest)

    def __str__(self) -> str:
        return self.folded.digest

    def unrolled(self, types: Sequence[TensorType]) -> TensorGraph:
        """See Unrollable; what was made is kept."""
        key = tuple(types)
        if key not in self._made:
            if len(self._made) >= MAX_LENGTHS:
                raise BindError(f"a loop has been unrolled for {MAX_LENGTHS} lengths already")
            try:
                self._made[key] = self.inlined(types)
            except StitchError as error:
                self._made[key] = error.message  # to find out that one is too long takes seconds, too
        made = self._made[key]
        if isinstance(made, str):
            raise BindError(made)
        return made

    def inlined(self, types: Sequence[TensorType]) -> TensorGraph:
        """As unrolled; not remembered."""
        graph_def, types_of = self._with_sizes(types)
        ends = frozenset(f"tfs_out{i}" for i in range(len(self.folded.outputs)))
        done = unroll_loops(GraphState(graph_def, types_of.__getitem__, ends, _ALL))
        if done.stay:
            raise BindError("; ".join(done.stay.values()))
        imported = done.state.imported
        members = [n for n in imported.nodes.values() if n.op not in _LEAVES]
        outside = next((n for n in members if n.reason is not None and n.reason is not SHAPE_ARITHMETIC), None)
        if outside is not None:
            raise BindError(f"{outside.name}: {outside.reason}")
        checked = next((n for n in members if n.checks and device_type(n.device) == "GPU"), None)
        if checked is not None:
            raise BindError(f"{checked.name}: an index is decided at run time")
        if len({n.device for n in members if n.weight}) > 1:
            raise BindError("its nodes are on several devices")
        region = cut_region(imported, [n.name for n in members if n.reason is None],
                            [f"tfs_out{i}:0" for i in range(len(self.folded.outputs))])
        return _renumbered(region.graph, [_number(t) for t in region.inputs],
                           [region.outputs[f"tfs_out{i}:0"] for i in range(len(self.folded.outputs))])

    def _with_sizes(self, types: Sequence[TensorType]) -> tuple[GraphDef, dict[str, list[OutputType]]]:
        """The nodes with placeholders of these types, and numbers for what sizes are."""
        graph_def = GraphDef()
        types_of = {name: [(e, None if d is None else tuple(max(x, -1) for x in d)) for e, d in outputs]
                    for name, outputs in self.folded.types.items()}
        names: dict[str, str] = {}
        device = self.folded.nodes[0].device
        for i, (tensor, given) in enumerate(zip(self.folded.inputs, types, strict=True)):
            names[tensor] = f"tfs_in{i}"
            node = graph_def.node.add(name=names[tensor], op="Placeholder", device=device)
            node.attr["dtype"].type = to_enum(given.dtype)
            types_of[node.name] = [(to_enum(given.dtype), given.dims)]
        for i, (tensor, elements) in enumerate(self.folded.sizes.items()):
            names[tensor] = f"tfs_size{i}"
            known = [types[e.number].dims[e.axis] if isinstance(e, InputDimension) else e for e in elements.flat]
            enum = self.folded.types[tensor][0][0]
            value = np.array(known, tf.as_dtype(enum).as_numpy_dtype).reshape(elements.shape)
            node = graph_def.node.add(name=names[tensor], op="Const", device=device)
            node.attr["dtype"].type = enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
            types_of[node.name] = [(enum, value.shape)]
        for source in self.folded.nodes:
            node = graph_def.node.add()
            node.CopyFrom(source)
            node.input[:] = [t if t.startswith("^") else names.get(canonical_tensor(t), t) for t in source.input]
        for i, tensor in enumerate(self.folded.outputs):
            name, _, index = tensor.rpartition(":")
            node = graph_def.node.add(name=f"tfs_out{i}", op="Identity", device=device, input=[tensor])
            types_of[node.name] = [types_of[name][int(index)]]
            node.attr["T"].type = types_of[node.name][0][0]
        return graph_def, types_of


def legalizations(loops: FoldedLoops) -> dict[str, Legalization]:
    """How a graph's StitchLoops become IR."""
    sized = {name: SizedLoop(folded) for name, folded in loops.items()}
    return {STITCH_LOOP: Legalization(partial(_loop, sized), weight=2)}  # a region of its own, if need be


def _loop(loops: Mapping[str, SizedLoop], ctx: NodeContext) -> list[Node]:
    found = loops[ctx.name]
    operands = ctx.values(0, len(found.folded.inputs))
    results: list[Node] = []
    for i, spec in enumerate(ctx.output_specs):
        assert spec.dtype is not None
        assert spec.shape is not None
        results.append(make_node(OpKind.LOOP, operands, LoopAttrs(found, i, TensorType(spec.dtype, spec.shape)),
                                 ctx.b.loc))
    return results


def _number(tensor: str) -> int:
    name = producer_of(tensor)
    if not name.startswith("tfs_in"):
        raise BindError(f"{name} is too large a constant")
    return int(name.removeprefix("tfs_in"))


def _renumbered(graph: TensorGraph, inputs: Sequence[int], outputs: Sequence[int]) -> TensorGraph:
    """The graph with its inputs and results numbered as the loop's are."""
    new: dict[Node, Node] = {}
    for node in graph.nodes():
        attrs = node.attrs
        if isinstance(attrs, InputAttrs):
            attrs = InputAttrs(f"i{inputs[int(attrs.key.removeprefix('i'))]}", attrs.type)
        new[node] = make_node(node.kind, [new[o] for o in node.operands], attrs, node.loc)
    results = dict(graph.outputs)
    return TensorGraph(graph.name, [(f"o{i}", new[results[f"o{o}"]]) for i, o in enumerate(outputs)])
