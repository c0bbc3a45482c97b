"""Unrolls while loops whose trip count is known: copies of the body, one a step, with no Enter, Merge, Switch or list.

A loop is run as an interpreter would, with numbers where values are known (counters, conditions, indices), lists of
tensors where TensorFlow keeps lists, and names of tensors for all else. What computes a tensor is copied as it is met,
so that nodes which get the same in every step are there once. A loop that is not understood stays, with the reason.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import StitchError, UnsupportedError
from tf_stitch.frontend.tensorflow.constant_arrays import constant_array
from tf_stitch.frontend.tensorflow.control_context import control_contexts, frame_names
from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS, MERGES, SWITCHES
from tf_stitch.frontend.tensorflow.dtypes import of_enum
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of, topological
from tf_stitch.frontend.tensorflow.loop_frames import READS_VARIABLE, LoopFrame, loop_frames, why_not_unrolled
from tf_stitch.frontend.tensorflow.loop_shapes import ARGUMENTS
from tf_stitch.frontend.tensorflow.loop_values import Number, TensorList, Value, Wire, fold, scalar
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.loops.list_values import CREATORS, RULES, ListOp
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.loops.unrolled_nodes import UnrolledNodes
from tf_stitch.graph.pruning import prune
from tf_stitch.graph.state import GraphState

MAX_NUMBER = 64
"""Elements of a constant that conditions and indices are looked for in."""


class _Stays(Exception):
    """A loop cannot be unrolled."""

    def __init__(self, frames: Sequence[str], reason: str) -> None:
        self.frames, self.reason = frames, reason


def unroll_loops(state: GraphState) -> LoopChange:
    """Unrolls what can be."""
    order = list(topological({node.name: node for node in state.graph_def.node}))
    contexts = control_contexts(state.imported, frame_names(state.graph_def))
    stay: dict[str, str] = {}
    loops: dict[str, LoopFrame] = {}
    for name, frame in loop_frames(order).items():
        reason = frame if isinstance(frame, str) else why_not_unrolled(frame, state.preserved)
        if reason is None and isinstance(frame, LoopFrame) and any(
                contexts[node.name] != {("frame", name)} for node in frame.of(ENTERS)):
            reason = "it is in a branch or in another loop"
        if reason is not None:
            stay[name] = reason
        elif isinstance(frame, LoopFrame):
            loops[name] = frame
    while loops:
        unroller = _Unroller(state, loops, order)
        try:
            return replace(unroller.run(), stay=stay)
        except _Stays as found:
            for name in found.frames:
                stay[name] = found.reason
                del loops[name]
    return LoopChange(state, stay=stay)


@dataclass
class _Maker:
    """Makes nodes in the place of one list op, see loop_lists.Maker."""

    nodes: UnrolledNodes
    like: NodeDef
    name: str
    types: Sequence[OutputType]

    def node(self, op: str, suffix: str, inputs: Sequence[Wire], outputs: int, attrs: Mapping[str, Any]) -> list[Wire]:
        dtype, dims = self.nodes.type_of(inputs[0])
        if op == "Unpack":
            dims = None if dims is None else dims[1:]
        elif op == "Pack":
            whole = self.types[0][1]  # an element's shape may be one that inference lost in the loop
            dims = (len(inputs), *dims) if dims is not None else None if whole is None else (len(inputs), *whole[1:])
        return self.nodes.node(self.name + suffix, self.like, op, inputs, [(dtype, dims)] * outputs, attrs)

    def constant(self, value: Number, suffix: str = "") -> Wire:
        return self.nodes.constant(self.name + suffix, self.like, value)

    def dtype(self, wire: Wire) -> int:
        return self.nodes.type_of(wire)[0]

    def dims(self, wire: Wire) -> tuple[int, ...] | None:
        return self.nodes.type_of(wire)[1]


class _Unroller:
    """One attempt at a graph: all of `loops` are unrolled, or one is found that stays."""

    def __init__(self, state: GraphState, loops: Mapping[str, LoopFrame], order: Sequence[NodeDef]) -> None:
        self._state, self._graph_def, self._types_of = state, state.graph_def, state.types_of
        self._imported, self._preserved = state.imported, state.preserved
        self._loops, self._order = loops, order
        self._defs = {node.name: node for node in order}
        self._gone = {node.name for frame in loops.values() for node in frame.nodes}
        self._frame_of = {node.name: frame for frame in loops.values() for node in frame.of(EXITS)}
        self._waited = {t[1:] for node in order if node.name not in self._gone or node.op in ENTERS
                        for t in node.input if t[0] == "^"}
        self._nodes = UnrolledNodes(self._outer_type, lambda name: name in self._defs and name not in self._gone)
        self._fixed = {d for node in order if node.op in ARGUMENTS for _, dims in self._types_of(node.name)
                       for d in dims or () if d < -1}
        self._outside: dict[str, Value] = {}
        self._steps: dict[str, int] = {}

    def run(self) -> LoopChange:
        for node in self._order:
            frame = self._frame_of.get(node.name)
            if frame is not None and frame.name not in self._steps:
                self._unroll(frame)
            elif node.name not in self._gone:
                self._pass_on(node)
        return LoopChange(self._state.with_graph(self._rewritten(), self._types), self._steps)

    # The nodes outside of loops.

    def _outer(self, tensor: str) -> Value:
        """What a tensor from outside of the loop is."""
        if tensor not in self._outside:
            node = self._defs[producer_of(tensor)]
            value = Wire(tensor, self._number(tensor))
            made: list[Value] = [value]
            if node.op in CREATORS:
                operands = [self._outer(canonical_tensor(t)) for t in node.input if not t.startswith("^")]
                with contextlib.suppress(UnsupportedError):  # a list that stays a list: its users' rules say so
                    made = RULES[node.op](ListOp(node, operands, self._outer_maker(node)))
            self._outside[tensor] = made[0]
        return self._outside[tensor]

    def _pass_on(self, node: NodeDef) -> None:
        """A node that a list from an unrolled loop comes to works on the elements, or the loop stays."""
        operands = [self._outside.get(canonical_tensor(t)) for t in node.input if not t.startswith("^")]
        lists = [v for v in operands if isinstance(v, TensorList) and v.frames]
        if not lists or node.name in self._gone:
            return
        frames = sorted({name for values in lists for name in values.frames if name in self._loops})
        reader = f"its list is read by {node.name} ({node.op})"
        if node.op not in RULES or node.name in self._preserved:
            raise _Stays(frames, reader)
        self._gone.add(node.name)
        given = [self._outer(canonical_tensor(t)) for t in node.input if not t.startswith("^")]
        try:
            outputs = RULES[node.op](ListOp(node, given, self._outer_maker(node)))
        except UnsupportedError as error:
            raise _Stays(frames, f"{node.name} {error.message}") from None
        for index, value in enumerate(outputs):
            self._outside[f"{node.name}:{index}"] = value
        if node.name in self._waited and node.name not in self._nodes.defs:
            self._nodes.exit(node, None, [t[1:] for t in node.input if t.startswith("^")], [])

    def _outer_maker(self, node: NodeDef) -> _Maker:
        return _Maker(self._nodes, node, node.name, self._types_of(node.name))

    def _number(self, tensor: str) -> Number | None:
        known = self._imported.statics.get(tensor)
        dtype = of_enum(self._outer_type(tensor)[0])
        if known is None or dtype is None or not all(isinstance(e, int) for e in known.flat):
            return None
        return known.astype(dtype.numpy)

    def _outer_type(self, tensor: str) -> OutputType:
        name, _, index = tensor.rpartition(":")
        types = self._types_of(name)
        enum, dims = types[int(index)] if int(index) < len(types) else (0, None)
        value = self._imported.value(tensor)
        if value is not None and (dims is None or len(dims) == value.type.rank):
            known = [d if isinstance(d, int) else -1 for d in value.type.shape]
            dims = tuple(d if have is None or have < 0 <= d else have
                         for d, have in zip(known, dims or [None] * len(known), strict=True))
        return enum, dims

    # Loops.

    def _unroll(self, frame: LoopFrame) -> None:
        try:
            self._run_loop(frame)
        except (UnsupportedError, StitchError) as error:
            raise _Stays([frame.name], error.message) from None

    def _run_loop(self, frame: LoopFrame) -> None:
        enters = {node.name: self._outer(canonical_tensor(node.input[0])) for node in frame.of(ENTERS)}
        entries = {name: _through(value, frame.name) for name, value in enters.items()}
        after = [t[1:] for node in frame.of(ENTERS) for t in node.input if t.startswith("^")]
        state = {merge: entries[enter] for merge, (enter, _) in frame.variables.items()}
        condition = canonical_tensor(frame.condition.input[0])
        deciding = frame.behind([condition])
        body = [n for n in frame.behind([back for _, back in frame.variables.values()]) if n not in deciding]
        step = 0
        while True:
            env: dict[str, Value] = {f"{n}:0": v for n, v in (*entries.items(), *state.items())}
            self._evaluate(deciding, env, step, after)
            go_on = scalar(env[condition])
            if go_on is None:
                raise UnsupportedError("data decides when it ends")
            if not go_on:
                break
            self._evaluate(body, env, step, after)
            state = {merge: env[back] for merge, (_, back) in frame.variables.items()}
            step += 1
        self._steps[frame.name] = step
        self._leave(frame, state, [*after, *self._entered(enters)])

    def _leave(self, frame: LoopFrame, state: Mapping[str, Value], before: Sequence[str]) -> None:
        """Nodes in the place of the loop's Exits. Who waits for one waits for all that has to be before the end."""
        names = {node.name for node in frame.nodes}
        before = [*before, *(name for name, node in self._nodes.defs.items() if node.op == READS_VARIABLE
                             and name.rpartition("/step_")[0] in names)]
        for node in frame.of(EXITS):
            switch = self._defs[producer_of(node.input[0])]
            value = state[producer_of(switch.input[0])]
            wait = before if node.name in self._waited else ()
            if isinstance(value, TensorList):
                if wait:
                    self._nodes.exit(node, None, wait, [])
                self._outside[f"{node.name}:0"] = _through(value, frame.name)
            else:
                types = [self._loop_type(t) for t in self._types_of(node.name)]
                self._nodes.exit(node, value, wait, types)
                self._outside[f"{node.name}:0"] = Wire(f"{node.name}:0", value.number)

    def _entered(self, enters: Mapping[str, Value]) -> list[str]:
        """Nodes that gave a loop what it started from."""
        return [producer_of(v.tensor) for v in enters.values() if isinstance(v, Wire)]

    def _evaluate(self, nodes: Sequence[NodeDef], env: dict[str, Value], step: int, after: Sequence[str]) -> None:
        for node in nodes:
            if node.op in MERGES or node.op in ENTERS:
                continue
            tensors = [canonical_tensor(t) for t in node.input if not t.startswith("^")]
            if any(t not in env for t in tensors):
                raise UnsupportedError(f"{node.name} reads what no variable of the loop is")
            operands = [env[t] for t in tensors]
            if node.op in SWITCHES:
                env[f"{node.name}:1"] = operands[0]
                continue
            try:
                outputs = self._value(node, operands, step, after)
            except UnsupportedError as error:
                raise UnsupportedError(f"{node.name} {error.message}") from None
            env.update((f"{node.name}:{i}", value) for i, value in enumerate(outputs))

    def _value(self, node: NodeDef, operands: Sequence[Value], step: int, after: Sequence[str]) -> Sequence[Value]:
        if node.op in ("Identity", "LoopCond"):
            return operands[:1]
        if node.op in RULES and (node.op in CREATORS or isinstance(operands[0], TensorList)):
            return RULES[node.op](ListOp(node, operands, self._maker(node, step)))
        known = fold(node.op, operands)
        if known is not None:
            return [self._nodes.constant(f"{node.name}/step_{step}", node, known)]
        wires = [w for w in operands if isinstance(w, Wire)]
        if len(wires) < len(operands):
            raise UnsupportedError(f"({node.op}) takes a list")
        types = [self._loop_type(t) for t in self._types_of(node.name)]
        copies = self._nodes.copy(node, step, wires, after if node.op == READS_VARIABLE else (), types)
        return [replace(copies[0], number=known_numbers(node))] if node.op == "Const" else copies

    def _maker(self, node: NodeDef, step: int) -> _Maker:
        types = [self._loop_type(t) for t in self._types_of(node.name)]
        return _Maker(self._nodes, node, f"{node.name}/step_{step}", types)

    def _loop_type(self, output: OutputType) -> OutputType:
        """The type of a node in a loop, without the unknown sizes that may differ from step to step."""
        enum, dims = output
        return enum, None if dims is None else tuple(d if d >= 0 or d in self._fixed else -1 for d in dims)

    # The new graph.

    def _rewritten(self) -> GraphDef:
        out = GraphDef()
        out.CopyFrom(self._graph_def)
        del out.node[:]
        for source in self._graph_def.node:
            if source.name not in self._gone:
                node = out.node.add()
                node.CopyFrom(source)
                node.input[:] = [self._renamed(t) for t in source.input]
        out.node.extend(self._nodes.needed_by(out))
        prune(out, self._graph_def, self._preserved)
        return out

    def _renamed(self, edge: str) -> str:
        value = None if edge.startswith("^") else self._outside.get(canonical_tensor(edge))
        return value.tensor if isinstance(value, Wire) and producer_of(edge) in self._gone else edge

    def _types(self, name: str) -> list[OutputType]:
        return self._nodes.types[name] if name in self._nodes.types else self._types_of(name)


def _through(value: Value, frame: str) -> Value:
    return replace(value, frames=value.frames | {frame}) if isinstance(value, TensorList) else value


def known_numbers(node: NodeDef) -> Number | None:
    """The value of a constant that conditions and indices may be made of."""
    tensor = node.attr["value"].tensor  # of one value and a large shape, perhaps
    value = constant_array(tensor) if math.prod(d.size for d in tensor.tensor_shape.dim) <= MAX_NUMBER else None
    return value if value is not None and value.dtype.kind in "iub" else None
