"""The TensorFlow nodes that a region replaced, kept to be run again: when shapes contradict what the rewrite took for
granted, when no kernel can be built, and when a value is wrong and the error must be TensorFlow's own."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_flow import ENTERS
from tf_stitch.frontend.tensorflow.export_table import tf_dtype
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import SHAPE_ARITHMETIC
from tf_stitch.frontend.tensorflow.registry import LEGALIZATIONS
from tf_stitch.frontend.tensorflow.static_values import SHAPE_OPS, STATIC_RULES
from tf_stitch.frontend.tensorflow.variable_ops import writes_variables
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.graph.fallback.completeness import why_incomplete
from tf_stitch.graph.fallback.fallback_function import function_def
from tf_stitch.graph.fallback.update_order import update_early
from tf_stitch.graph.loops.folded_loop import FoldedLoops, put_back_loops
from tf_stitch.graph.shapes.given_sizes import GivenSizes
from tf_stitch.graph.shapes.size_nodes import SizeNodes, SizeSource, size_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_attrs import InputAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Dim, Symbol

_READ_A_SHAPE = ("Shape", "Size", "Rank")
_GOES_ON = "StitchGoesOn"  # native/loop/goes_on_op.cc
_NOTHING = "tfs_nothing"  # in place of inputs that are ignored
_MAX_RECOMPUTED = 400  # nodes outside the region that its nodes' inputs are recomputed by: shape arithmetic


class FallbackSubgraph:
    """Runs a region by the nodes it came from, in a session of its own, within the calling thread.

    Args:
        nodes: the region's nodes and what computes their inputs; tensors that come from outside are
            named "tfs_i0:0" (inputs) and "tfs_v0:0" (handles).
        outputs: a tensor per output of the region.
        written: numbers of the variables that are assigned.
        parallel: its nodes run side by side.

    Attributes:
        lacks: why the nodes cannot give the region's outputs, "" if they can.
    """

    def __init__(self, nodes: GraphDef, region: RegionGraph, outputs: Sequence[str], written: frozenset[int],
                 parallel: bool) -> None:
        self._nodes, self._outputs, self._written = nodes.SerializeToString(), list(outputs), written
        self._parallel = parallel
        self._output_types = [tf_dtype(n.type.dtype) for key, n in region.graph.outputs if key.startswith("o")]
        self._members = list(region.members)
        inputs = {n.attrs.key: n for n in region.graph.inputs() if isinstance(n.attrs, InputAttrs)}
        variables = {n.attrs.handle: n for n in region.graph.inputs() if isinstance(n.attrs, VariableAttrs)}
        self._inputs = [tf_dtype(inputs[key].type.dtype) for key in region.input_keys]
        self._variables = [tf_dtype(variables[key].type.dtype) for key in region.variable_keys]
        arguments = {*(f"tfs_i{i}:0" for i in range(len(self._inputs))),
                     *(f"tfs_v{i}:0" for i in range(len(self._variables)))}
        self.lacks = why_incomplete(nodes, arguments, self._outputs, self._members)
        self._sessions: dict[tuple[int, ...], tf.compat.v1.Session] = {}
        self._lock = threading.Lock()

    def function(self, name: str) -> FunctionDef:
        """A function of the nodes, from the region's inputs and handles to its outputs. Ctrl-C ends its loops as it
        ends StitchWhile.

        Raises:
            UnsupportedError: TensorFlow does not know one of the ops.
        """
        nodes = GraphDef.FromString(self._nodes)
        for condition in [node for node in nodes.node if node.op == "LoopCond"]:
            asked = nodes.node.add(name=f"{condition.name}/tfs_goes_on", op=_GOES_ON, input=condition.input[:1])
            condition.input[0] = asked.name
        arguments = {f"tfs_i{i}": dtype.as_datatype_enum for i, dtype in enumerate(self._inputs)}
        arguments |= {f"tfs_v{i}": tf.resource.as_datatype_enum for i in range(len(self._variables))}
        outputs = [(t, dtype.as_datatype_enum) for t, dtype in zip(self._outputs, self._output_types, strict=True)]
        place = {name: i for i, name in enumerate(self._members)}
        read = {t.removeprefix("^").partition(":")[0] for node in nodes.node for t in node.input}
        update_early(sorted(nodes.node, key=lambda node: place.get(node.name, -1)), one_by_one=not self._parallel)
        must_run = [m for m in self._members if m not in read]
        given = {t for node in nodes.node if writes_variables(node) for t in node.input}  # handles, indices, updates
        written = [place for place, (argument, enum) in enumerate(arguments.items())
                   if enum == tf.resource.as_datatype_enum and f"{argument}:0" in given]
        return function_def(name, nodes, arguments, outputs, must_run, self._parallel, written)

    def run(self, inputs: Sequence[NDArray[Any]], variables: Sequence[NDArray[Any]],
            same_as: Sequence[int]) -> tuple[list[NDArray[Any]], dict[int, NDArray[Any]]]:
        """Outputs, and the new values of the variables that the region assigns.

        Args:
            same_as: for each variable the first that is the same resource.

        Raises:
            tf.errors.OpError: what the nodes raise.
        """
        with self._lock:
            key = tuple(same_as)
            if key not in self._sessions:
                self._sessions[key] = self._prepare(key)
            session = self._sessions[key]
            own = sorted(set(same_as))
            session.run([f"tfs_set{i}" for i in own], {f"tfs_value{i}:0": variables[i] for i in own})
            feeds = {f"tfs_i{i}:0": x for i, x in enumerate(inputs)}
            results = session.run([*self._outputs, *self._members], feeds)[:len(self._outputs)]
            changed = sorted({same_as[i] for i in self._written})
            values = dict(zip(changed, session.run([f"tfs_get{i}:0" for i in changed]), strict=True))
            return results, {i: values[first] for i, first in enumerate(same_as) if first in values}

    def _prepare(self, same_as: tuple[int, ...]) -> tf.compat.v1.Session:
        v1 = tf.compat.v1
        graph, nodes = tf.Graph(), GraphDef.FromString(self._nodes)
        read = {t for node in nodes.node for t in node.input}
        with graph.as_default(), tf.device(None):
            renames: dict[str, Any] = {}
            for i, dtype in enumerate(self._inputs):
                renames[f"tfs_i{i}:0"] = v1.placeholder(dtype, name=f"tfs_i{i}")
            for i, dtype in enumerate(self._variables):
                if same_as[i] != i:
                    renames[f"tfs_v{i}:0"] = renames[f"tfs_v{same_as[i]}:0"]
                    continue
                handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=None, shared_name=f"tfs_v{i}", name=f"tfs_v{i}")
                renames[f"tfs_v{i}:0"] = handle
                value = v1.placeholder(dtype, name=f"tfs_value{i}")
                tf.raw_ops.AssignVariableOp(resource=handle, value=value, name=f"tfs_set{i}")
                tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype, name=f"tfs_get{i}")
            # An input that only shows a size (TensorGraph.unread) is read by none of them.
            tf.graph_util.import_graph_def(nodes, {t: new for t, new in renames.items() if t in read}, name="")
        # In the calling thread: it may be one of TensorFlow's own, and waiting for another could wait for itself.
        config = v1.ConfigProto(inter_op_parallelism_threads=-1, device_count={"GPU": 0}, allow_soft_placement=True)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        return v1.Session(graph=graph, config=config)


def fallback_subgraph(defs: Mapping[str, NodeDef], imported: ImportedGraph, region: RegionGraph,
                      on_gpu: bool = False, loops: FoldedLoops | None = None, given_sizes: GivenSizes | None = None
                      ) -> FallbackSubgraph | None:
    """The nodes behind a region, None if they need a tensor that the region does not read.

    Args:
        on_gpu: where the region runs.
        loops: what nodes that stand for a loop stand for.
        given_sizes: where the program reads sizes that nodes read elsewhere.
    """
    given_sizes = given_sizes or GivenSizes()
    found = _fallback_subgraph(defs, imported, region, on_gpu, loops or {}, given_sizes, from_parts=False)
    return found or _fallback_subgraph(defs, imported, region, on_gpu, loops or {}, given_sizes, from_parts=True)


def _fallback_subgraph(defs: Mapping[str, NodeDef], imported: ImportedGraph, region: RegionGraph, on_gpu: bool,
                       loops: FoldedLoops, given_sizes: GivenSizes, from_parts: bool) -> FallbackSubgraph | None:
    """As fallback_subgraph.

    Args:
        from_parts: shapes of tensors that are not at hand are put together of sizes that are.
    """
    nodes = _OwnNodes(defs, imported, region, loops, given_sizes, from_parts).collected()
    if nodes is None:
        return None
    put_back_loops(nodes, loops)
    if any(f"{_NOTHING}:0" in node.input for node in nodes.node):
        nodes.node.append(_constant(_NOTHING, 0, tf.float32))
    tensors = {number: tensor for tensor, number in region.outputs.items()}
    written = {int(key[1:]) for key, _ in region.graph.outputs if key.startswith("v")}
    return FallbackSubgraph(nodes, region, [tensors[i] for i in range(len(tensors))],
                            frozenset(written), not on_gpu and has_matmuls(region))


class _OwnNodes:
    """The nodes of a region, and those that their inputs are recomputed by. Arguments as of _fallback_subgraph."""

    def __init__(self, defs: Mapping[str, NodeDef], imported: ImportedGraph, region: RegionGraph, loops: FoldedLoops,
                 given_sizes: GivenSizes, from_parts: bool) -> None:
        self._defs, self._imported, self._region, self._loops = {**given_sizes.nodes, **defs}, imported, region, loops
        self._given_sizes, self._from_parts = given_sizes, from_parts
        self._leaves = {t: f"tfs_i{i}:0" for i, t in enumerate(region.inputs)}
        self._leaves |= {t: f"tfs_v{i}:0" for i, t in enumerate(region.handles)}
        self._leaf_names = set(self._leaves.values())
        self._reads = {imported.handles.get(t, t): leaf for leaf, t in _reads(imported, region)}
        self._by_shape = {v.type.shape: t for t in region.inputs if (v := imported.value(t)) is not None}
        self._sizes = _SizesAtHand(imported, region, self._leaves)
        self._members = set(region.members)
        self._pending, self._seen = list(region.members), set(region.members)

    def collected(self) -> GraphDef | None:
        """The nodes; None if they need a tensor that the region does not read."""
        kept = GraphDef()
        while self._pending:
            node = kept.node.add()
            node.CopyFrom(self._defs[self._pending.pop()])
            node.device = ""
            node.attr.pop("_class", None)
            if self._is_size_at_hand(node):
                continue
            data = [self._input_of(node, canonical_tensor(t)) for t in node.input if not t.startswith("^")]
            if None in data:
                return None
            node.input[:] = [*(t for t in data if t is not None), *self._controls(node)]
        kept.node.extend(self._sizes.new)
        return kept

    def _is_size_at_hand(self, node: NodeDef) -> bool:
        """Whether a node has become a size that the region's inputs have. Others read sizes where that is possible."""
        if node.name in self._members:
            self._given_sizes.restore(node, self._has)
            return False
        if node.op in _READ_A_SHAPE and not self._has(canonical_tensor(node.input[0])):
            _read_it_elsewhere(node, self._imported, self._by_shape)
        return self._from_parts and self._sizes.replace(node, self._has)

    def _has(self, tensor: str) -> bool:
        return producer_of(tensor) in self._members or self._leaf_or(tensor) in self._leaf_names

    def _leaf_or(self, tensor: str) -> str:
        return _at_hand(tensor, self._defs, self._imported, self._leaves)

    def _input_of(self, node: NodeDef, given: str) -> str | None:
        """The tensor that a node reads in place of a given one, whose node is collected too; None if there is none."""
        tensor = self._leaf_or(given)
        name = tensor.rpartition(":")[0]
        if tensor in self._leaf_names or name in self._seen:
            return tensor
        source = self._defs[name]
        handle = canonical_tensor(source.input[0]) if source.op == "ReadVariableOp" else ""
        same = self._reads.get(self._imported.handles.get(handle, handle))
        if same is not None:  # another read of a variable that nobody writes
            return same
        if node.name in self._members and tensor in self._imported.nodes[node.name].ignored:
            return f"{_NOTHING}:0"
        is_known = _can_recompute(source) or name in self._loops
        if not is_known or len(self._seen) > len(self._members) + _MAX_RECOMPUTED:
            return None
        self._seen.add(name)
        self._pending.append(name)
        return tensor

    def _controls(self, node: NodeDef) -> list[str]:
        """Members that a member waits for."""
        if node.name not in self._members:
            return []
        return [t for t in node.input if t.startswith("^") and t[1:] in self._members]


def has_matmuls(region: RegionGraph) -> bool:
    """One thread costs least per node, but on a CPU matmuls are worth more than that side by side."""
    return any(node.kind is OpKind.DOT for node in region.graph.nodes())


def _read_it_elsewhere(node: NodeDef, imported: ImportedGraph, by_shape: Mapping[tuple[Dim, ...], str]) -> None:
    """Lets a node that reads a tensor's shape read that of an input of the region which has the same: the tensor itself
    may depend on a variable's old value."""
    tensor = canonical_tensor(node.input[0])
    value = imported.value(tensor) if producer_of(tensor) in imported.nodes else None
    if value is None:
        return
    if value.type.is_static:
        result = {"Shape": value.type.dims, "Size": value.type.numel, "Rank": value.type.rank}[node.op]
        node.CopyFrom(_constant(node.name, result, tf.as_dtype(node.attr["out_type"].type or tf.int32)))
    elif value.type.shape in by_shape:
        node.input[0] = by_shape[value.type.shape]
        same = imported.value(node.input[0])
        assert same is not None
        node.attr["T"].type = tf_dtype(same.type.dtype).as_datatype_enum


class _SizesAtHand:
    """Sizes that the region's inputs have.

    Args:
        leaves: what inputs are called among the nodes.
    """

    def __init__(self, imported: ImportedGraph, region: RegionGraph, leaves: Mapping[str, str]) -> None:
        self._imported, self._leaves = imported, leaves
        self._sources = {dim: SizeSource(leaves[t], tf_dtype(v.type.dtype).as_datatype_enum, v.type.rank, axis)
                         for t in region.inputs if (v := imported.value(t)) is not None
                         for axis, dim in enumerate(v.type.shape) if isinstance(dim, Symbol)}
        self._names = (f"tfs_sizes_{i}" for i in itertools.count())
        self._nodes: dict[DType, SizeNodes] = {}

    @property
    def new(self) -> list[NodeDef]:
        """Nodes that read them."""
        return [node for nodes in self._nodes.values() for node in nodes.new]

    def replace(self, node: NodeDef, at_hand: Callable[[str], bool]) -> bool:
        """Lets arithmetic of shapes that are not at hand be these sizes; whether it can."""
        if node.name not in self._imported.nodes:  # the program's own, which reads what is at hand
            return False
        known, own = self._imported.statics.get(f"{node.name}:0"), self._imported.nodes[node.name]
        value = own.outputs[0] if own.reason == SHAPE_ARITHMETIC and len(own.outputs) == 1 else None
        if known is None or value is None or known.ndim > 1 or not known.size:
            return False
        sizes = [size for d in known.flat if (size := size_of(d, self._sources)) is not None]
        if not node.input or at_hand(canonical_tensor(node.input[0])) or len(sizes) < known.size:
            return False
        dtype = value.type.dtype
        nodes = self._nodes.setdefault(dtype, SizeNodes(lambda: next(self._names), tf_dtype(dtype)))
        whole = NodeDef(name=node.name, op="Identity",
                        input=[nodes.vector(sizes, "") if known.ndim else nodes.scalar(sizes[0], "")])
        whole.attr["T"].type = tf_dtype(dtype).as_datatype_enum
        node.CopyFrom(whole)
        return True


def _constant(name: str, value: Any, dtype: tf.DType) -> NodeDef:
    node = NodeDef(name=name, op="Const")
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype=dtype))
    return node


def _at_hand(tensor: str, defs: Mapping[str, NodeDef], imported: ImportedGraph, leaves: Mapping[str, str]) -> str:
    """The leaf that a tensor is, or the tensor; outside of the loops that it was brought into, for the nodes are in
    none."""
    while True:
        leaf = leaves.get(tensor) or leaves.get(_first_name(tensor, imported))
        source = defs.get(producer_of(tensor))
        if leaf is not None or source is None or source.op not in ENTERS:
            return leaf or tensor
        tensor = canonical_tensor(source.input[0])


def _first_name(tensor: str, imported: ImportedGraph) -> str:
    """What regions call the value of a tensor, which others may have, too."""
    value = imported.value(tensor) if producer_of(tensor) in imported.nodes else None
    return tensor if value is None else imported.owner.get(value, tensor)


def _reads(imported: ImportedGraph, region: RegionGraph) -> list[tuple[str, str]]:
    """(leaf, handle) of the inputs that are reads of variables that the graph only reads."""
    found = []
    for i, tensor in enumerate(region.inputs):
        node = imported.nodes[tensor.rpartition(":")[0]]
        if node.op == "ReadVariableOp" and imported.handles.get(node.inputs[0], node.inputs[0]) in \
                imported.constant_handles:
            found.append((f"tfs_i{i}:0", node.inputs[0]))
    return found


def _can_recompute(node: NodeDef) -> bool:
    if "Variable" in node.op or node.op.startswith("Resource"):
        return False
    return node.op == "Const" or node.op in SHAPE_OPS or node.op in STATIC_RULES or node.op in LEGALIZATIONS
