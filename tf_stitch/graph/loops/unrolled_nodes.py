"""Nodes that unrolling makes: copies of a loop's nodes, and plain tensor ops in the place of list ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import StitchError, UnsupportedError
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.loop_values import Number, Wire
from tf_stitch.graph.graph_item import OutputType

MAX_NODES = 30_000
"""Nodes that one graph may gain. The planner takes about 3 s for 10,000 (benchmarks/planning.md), less where layers are
alike. With 20,000 the last of five layers of 200 frames stayed a loop of TensorFlow's, whose
other ops took as long as all the rest."""


class UnrolledNodes:
    """New nodes by name, with the types of their outputs.

    Args:
        type_of: the type of a tensor of the old graph.
        is_taken: whether a node that stays has a name.
    """

    def __init__(self, type_of: Callable[[str], OutputType], is_taken: Callable[[str], bool]) -> None:
        self._type_of, self._is_taken = type_of, is_taken
        self.defs: dict[str, NodeDef] = {}
        self.types: dict[str, list[OutputType]] = {}
        self._copies: dict[tuple[str, ...], str] = {}

    def type_of(self, wire: Wire) -> OutputType:
        name, _, index = canonical_tensor(wire.tensor).rpartition(":")
        return self.types[name][int(index)] if name in self.types else self._type_of(f"{name}:{index}")

    def copy(self, node: NodeDef, step: int, inputs: Sequence[Wire], controls: Sequence[str],
             types: Sequence[OutputType]) -> list[Wire]:
        """A copy of a loop's node, the same for all steps in which it is given the same."""
        key = (node.name, *(w.tensor for w in inputs))
        if key not in self._copies:
            made = self._add(f"{node.name}/step_{step}", node.op, node.device, inputs, controls, types)
            for name, value in node.attr.items():
                if name != "_class":  # placement is done
                    made.attr[name].CopyFrom(value)
            self._copies[key] = made.name
        return self._outputs(self._copies[key])

    def node(self, name: str, like: NodeDef, op: str, inputs: Sequence[Wire], types: Sequence[OutputType],
             attrs: Mapping[str, Any]) -> list[Wire]:
        """A node where `like` runs; an attribute is a DataType if its name begins with T, else an integer."""
        made = self._add(name, op, like.device, inputs, (), types)
        for key, value in attrs.items():
            if key.startswith("T"):
                made.attr[key].type = value
            else:
                made.attr[key].i = value
        return self._outputs(name)

    def constant(self, name: str, like: NodeDef, value: Number) -> Wire:
        """A constant where `like` runs."""
        proto = tf.make_tensor_proto(value)
        made = self._add(name, "Const", like.device, (), (), [(proto.dtype, value.shape)])
        made.attr["dtype"].type = proto.dtype
        made.attr["value"].tensor.CopyFrom(proto)
        return Wire(f"{name}:0", value if value.dtype.kind in "iub" else None)

    def exit(self, node: NodeDef, value: Wire | None, controls: Sequence[str], types: Sequence[OutputType]) -> None:
        """A node of a loop's Exit's name: its value, or what waits for the loop where it has none."""
        made = self._add(node.name, "NoOp" if value is None else "Identity", node.device,
                         () if value is None else (value,), controls, types)
        if value is not None:
            made.attr["T"].CopyFrom(node.attr["T"])

    def needed_by(self, graph: GraphDef) -> list[NodeDef]:
        """The nodes that the graph's own need, themselves or through others."""
        pending = [producer_of(t) for node in graph.node for t in node.input]
        found: dict[str, NodeDef] = {}
        while pending:
            name = pending.pop()
            if name in self.defs and name not in found:
                found[name] = self.defs[name]
                pending += [producer_of(t) for t in self.defs[name].input]
        return [node for name, node in self.defs.items() if name in found]

    def _outputs(self, name: str) -> list[Wire]:
        return [Wire(f"{name}:{i}") for i in range(len(self.types[name]))]

    def _add(self, name: str, op: str, device: str, inputs: Sequence[Wire], controls: Sequence[str],
             types: Sequence[OutputType]) -> NodeDef:
        if name in self.defs or self._is_taken(name):
            raise StitchError(f"two nodes would be {name}")
        if len(self.defs) == MAX_NODES:
            raise UnsupportedError(f"more than {MAX_NODES} nodes would come of the graph's loops")
        made = NodeDef(name=name, op=op, device=device)
        made.input.extend([*(w.tensor for w in inputs), *(f"^{c}" for c in dict.fromkeys(controls))])
        self.defs[name], self.types[name] = made, list(types)
        return made
