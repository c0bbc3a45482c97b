"""Finds while loops whose length is a size, and puts one node in the place of each (see sized_loops)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import StitchError, UnsupportedError
from tf_stitch.frontend.tensorflow.control_context import control_contexts, frame_names
from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS
from tf_stitch.frontend.tensorflow.dtypes import DT_VARIANT, of_enum
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.loop_frames import READS_VARIABLE, LoopFrame, loop_frames, why_not_unrolled
from tf_stitch.graph.graph_edit import GraphEdit
from tf_stitch.graph.graph_item import OutputType, as_tensorflow
from tf_stitch.graph.loops.folded_loop import FoldedLoop, InputDimension, loop_node, most_common_device
from tf_stitch.graph.loops.iteration_gates import gate_iterations
from tf_stitch.graph.loops.list_values import CREATORS, RULES
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.loops.sized_loops import SizedLoop, legalizations
from tf_stitch.graph.state import GraphState
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.types import Dim, Symbol, TensorType, substitute

TRIAL = 3
"""Every unknown size, where it is tried whether a loop can be unrolled."""

SMALL = 64
"""Elements of a constant that goes into a loop as one."""


def fold_sized_loops(state: GraphState) -> LoopChange:
    """Puts a StitchLoop in the place of each loop whose length is a size and whose body regions could hold."""
    contexts = control_contexts(state.imported, frame_names(state.graph_def))
    edit = GraphEdit(state)
    sized: dict[str, FoldedLoop] = {}
    folded: dict[str, None] = {}
    stay: dict[str, str] = {}
    for name, frame in loop_frames(edit.order).items():
        try:
            if isinstance(frame, str):
                raise UnsupportedError(frame)
            reason = why_not_unrolled(frame, state.preserved)
            if reason is None and any(contexts[node.name] != {("frame", name)} for node in frame.of(ENTERS)):
                reason = "it is in a branch or in another loop"
            if reason is not None:
                raise UnsupportedError(reason)
            node, loop = _fold(edit, frame)
        except StitchError as error:
            stay[name] = error.message
        else:
            sized[node], folded[name] = loop, None
    if not folded:
        return LoopChange(state, stay=stay)
    return LoopChange(replace(edit.applied(), sized=sized, legalizations=legalizations(sized)), folded, stay)


def _fold(edit: GraphEdit, frame: LoopFrame) -> tuple[str, FoldedLoop]:
    """Puts a node in the place of one loop; its name, and what it stands for.

    Raises:
        UnsupportedError: its length is no size, or it cannot be unrolled; the message says why.
    """
    cut = _Cut(edit, frame)
    found, trial = cut.loop()
    name = edit.free_name(f"{frame.name}/stitched")
    controls = list(dict.fromkeys(t[1:] for node in frame.of(ENTERS) for t in node.input if t.startswith("^")))
    node = loop_node(name, found, most_common_device([n for n in frame.nodes if n.op in ENTERS]), controls)
    types = cut.output_types(found, trial)
    for read in cut.reads:  # out of the loop, which nothing writes in
        outer = NodeDef()
        outer.CopyFrom(read)
        outer.input[:] = [cut.handle(read), *(f"^{c}" for c in controls)]
        edit.new.append(outer)
    edit.new.append(node)
    edit.new_types[name] = types
    edit.gone |= cut.inside | {read.name for read in cut.reads}
    edit.renamed |= {tensor: f"{name}:{i}" for i, tensor in enumerate(found.outputs)}
    edit.renamed |= {f"^{inner}": f"^{name}" for inner in cut.inside}
    return name, found


class _Cut:
    """One loop with the lists around it, cut out of the graph."""

    def __init__(self, edit: GraphEdit, frame: LoopFrame) -> None:
        self._defs, self._users, self._types_of = edit.defs, edit.users, edit.state.types_of
        self._imported, self._frame = edit.state.imported, frame
        self.reads = frame.of((READS_VARIABLE,))
        self.inside = {node.name for node in frame.nodes} - {node.name for node in self.reads}
        self._lists: list[NodeDef] = []
        self._stacks: dict[str, NodeDef] = {}
        for node in frame.of(ENTERS):
            self._take_creator(node)
        for node in frame.of(EXITS):
            self._take_readers(node)

    def _is_list(self, tensor: str) -> bool:
        name, _, index = canonical_tensor(tensor).rpartition(":")
        types = self._types_of(name)
        return int(index) < len(types) and types[int(index)][0] == DT_VARIANT

    def _take_creator(self, enter: NodeDef) -> None:
        tensor = canonical_tensor(enter.input[0])
        if not self._is_list(tensor):
            return
        node = self._defs[producer_of(tensor)]
        if node.op not in CREATORS:
            raise UnsupportedError(f"it goes on with a list of {node.name} ({node.op})")
        if node not in self._lists:
            self._lists.append(node)

    def _take_readers(self, exit_: NodeDef) -> None:
        if not self._is_list(f"{exit_.name}:0"):
            return
        for user in self._users.get(exit_.name, ()):
            if f"^{exit_.name}" in user.input:
                continue
            if user.op not in RULES or any(self._is_list(f"{user.name}:{i}")
                                           for i in range(len(self._types_of(user.name)))):
                raise UnsupportedError(f"its list is read by {user.name} ({user.op})")
            self._stacks[user.name] = user
            self.inside.add(user.name)

    def handle(self, read: NodeDef) -> str:
        """The tensor outside of the loop that makes a read's handle."""
        enter = self._defs[producer_of(read.input[0])]
        if enter.op not in ENTERS:
            raise UnsupportedError(f"{read.name} reads a variable that the loop chooses")
        return str(enter.input[0])

    def loop(self) -> tuple[FoldedLoop, TensorGraph]:
        """What goes into the one node, and its graph where every unknown size is TRIAL.

        Raises:
            StitchError: it cannot be unrolled for some size.
        """
        nodes = [*(n for n in self._frame.nodes if n.name in self.inside), *self._lists, *self._stacks.values()]
        handles = {producer_of(r.input[0]) for r in self.reads}
        kept, types = list[NodeDef](), dict[str, list[OutputType]]()
        inputs = dict[str, None]()
        own = {n.name for n in nodes}
        for read in self.reads:
            kept.append(_entered(read, self._defs[producer_of(read.input[0])]))
            types[kept[-1].name] = self._types_of(read.name)
            inputs[f"{read.name}:0"] = None
        for source in nodes:
            if source.name not in handles:  # the Enter of a handle
                kept += self._copied(source, own, types, inputs)
        gate = gate_iterations(kept)
        if gate is not None:
            kept.append(gate)
            types[gate.name] = self._types_of(producer_of(gate.input[0]))[1:]
        sizes = self._sized(inputs)
        for tensor in sizes:
            types[tensor] = [self._types_of(producer_of(tensor))[int(tensor.rpartition(":")[2])]]
        given = tuple(t for t in inputs if t not in sizes)
        found = FoldedLoop(tuple(kept), types, given, sizes, tuple(self._outputs()))
        if not found.outputs:
            raise UnsupportedError("nobody reads what it gives")
        if not sizes:
            raise UnsupportedError("data decides when it ends")
        return found, SizedLoop(found).inlined(self._argument_types(found))

    def _copied(self, source: NodeDef, own: set[str], types: dict[str, list[OutputType]], inputs: dict[str, None]
                ) -> list[NodeDef]:
        """A node as it is inside, behind the constants that it is the first to read.

        Args:
            own: names of the nodes inside.
            types: of nodes inside; those of new ones are added.
            inputs: tensors from outside; those that it reads are added.
        """
        node, constants = NodeDef(), list[NodeDef]()
        node.CopyFrom(source)
        node.attr.pop("_class", None)
        node.name = self._own_name(node.name) if source in self._lists else node.name
        node.input[:] = [t for t in (self._edge(t, own) for t in source.input) if t]
        source_edges = [t for t in source.input if not t.startswith("^")]
        for i, edge in enumerate(node.input):
            if edge.startswith("^") or edge != source_edges[i] or producer_of(edge) in own:
                continue
            constant = self._small_constant(producer_of(edge))
            if constant is None:
                inputs[canonical_tensor(edge)] = None
                continue
            node.input[i] = self._own_name(constant.name)
            if node.input[i] not in types:
                constants.append(_constant_copy(node.input[i], constant))
                types[node.input[i]] = self._types_of(constant.name)
        types[node.name] = self._types_of(source.name)
        return [*constants, node]

    def _edge(self, edge: str, own: set[str]) -> str:
        """An input of a node as it is inside: variables' values through an Enter, no control edges from outside."""
        name = producer_of(edge)
        is_read = any(r.name == name for r in self.reads)
        if edge.startswith("^"):
            return f"^{name}/tfs_enter" if is_read else edge if name in own else ""
        if is_read:
            return f"{name}/tfs_enter"
        return self._own_name(name) if any(n.name == name for n in self._lists) else edge

    def _own_name(self, name: str) -> str:
        """Of a copy of a node that others may have a use for."""
        return f"{self._frame.name}/stitched/{name}"

    def _small_constant(self, name: str) -> NodeDef | None:
        node = self._defs[name]
        if node.op != "Const":
            return None
        _, dims = self._types_of(name)[0]
        return node if dims is not None and int(np.prod(dims)) <= SMALL else None

    def _sized(self, inputs: Mapping[str, None]) -> dict[str, NDArray[np.object_]]:
        """Those of the inputs whose elements are numbers and sizes of inputs."""
        where: dict[Dim, InputDimension] = {}
        known = {t: v for t in inputs if (v := self._imported.statics.get(t)) is not None}
        for number, tensor in enumerate(t for t in inputs if t not in known):
            value = self._imported.value(tensor)
            for axis, dim in enumerate(() if value is None else value.type.shape):
                if isinstance(dim, Symbol):
                    where.setdefault(dim, InputDimension(number, axis))
        found: dict[str, NDArray[np.object_]] = {}
        for tensor, elements in known.items():
            if any(not isinstance(e, int) and e not in where for e in elements.flat):
                raise UnsupportedError(f"{tensor} has sizes that none of its inputs have")
            found[tensor] = elements.copy()
            found[tensor].reshape(-1)[:] = [e if isinstance(e, int) else where[e] for e in elements.flat]
        return found

    def _outputs(self) -> list[str]:
        """Tensors that nodes outside read."""
        found: dict[str, None] = {}
        for name in [*(n.name for n in self._frame.of(EXITS)), *self._stacks]:
            for user in self._users.get(name, ()):
                if user.name not in self.inside:
                    found.update(dict.fromkeys(canonical_tensor(t) for t in user.input
                                               if not t.startswith("^") and producer_of(t) == name))
        return list(found)

    def _argument_types(self, found: FoldedLoop) -> list[TensorType]:
        types: list[TensorType] = []
        for tensor in found.inputs:
            value = self._imported.value(tensor)
            if value is None:
                raise UnsupportedError(f"nothing is known of the type of {tensor}")
            env = {d.name: TRIAL for d in value.type.shape if isinstance(d, Symbol)}
            types.append(TensorType(value.type.dtype, substitute(value.type.shape, env)))
        return types

    def output_types(self, found: FoldedLoop, trial: TensorGraph) -> list[OutputType]:
        """Types of the results: sizes that are numbers, or symbols as TensorFlow counts them, else -1."""
        tried = {key: node.type.dims for key, node in trial.outputs}
        types: list[OutputType] = []
        for i, tensor in enumerate(found.outputs):
            name, _, index = tensor.rpartition(":")
            enum, dims = self._types_of(name)[int(index)]
            if of_enum(enum) is None:
                raise UnsupportedError(f"{tensor} has a type that the IR lacks")
            tried_dims = tried[f"o{i}"]
            known = list(dims) if dims is not None and len(dims) == len(tried_dims) else [-1] * len(tried_dims)
            value = self._imported.value(tensor)
            if value is not None and len(value.type.shape) == len(known):
                known = [d if isinstance(d, int) else k for k, d in zip(known, value.type.shape, strict=True)]
            if name in self._stacks:
                known[0] = self._length(self._stacks[name], known[0])
            types.append((enum, tuple(known)))
        return types

    def _length(self, stack: NodeDef, otherwise: int) -> int:
        """The number of a stack's parts as TensorFlow counts symbols, where the list is told it."""
        switch = self._defs[producer_of(self._defs[producer_of(stack.input[0])].input[0])]
        enter = self._defs[self._frame.variables[producer_of(switch.input[0])][0]]
        source = self._defs[producer_of(enter.input[0])]
        if source.op != "TensorListReserve":
            return otherwise
        count = self._imported.statics.get(canonical_tensor(source.input[1]))
        return otherwise if count is None or count.size != 1 else as_tensorflow(count.flat[0], otherwise)


def _constant_copy(name: str, constant: NodeDef) -> NodeDef:
    copy = NodeDef(name=name, op="Const", device=constant.device)
    copy.attr["dtype"].CopyFrom(constant.attr["dtype"])
    copy.attr["value"].CopyFrom(constant.attr["value"])
    return copy


def _entered(read: NodeDef, handle: NodeDef) -> NodeDef:
    """An Enter that brings a variable's value into the loop."""
    node = NodeDef(name=f"{read.name}/tfs_enter", op="Enter", device=read.device, input=[f"{read.name}:0"])
    node.attr["T"].CopyFrom(read.attr["dtype"])
    node.attr["frame_name"].CopyFrom(handle.attr["frame_name"])
    node.attr["is_constant"].b = True
    node.attr["parallel_iterations"].CopyFrom(handle.attr["parallel_iterations"])
    return node
