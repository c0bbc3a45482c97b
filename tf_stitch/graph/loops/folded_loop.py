"""Loops that one node each stands for: what was cut out of the graph, the node, and the way back."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor
from tf_stitch.graph.graph_item import OutputType

STITCH_LOOP = "StitchLoop"


@dataclass(frozen=True)
class InputDimension:
    """A whole number that is dimension `axis` of input `number`."""

    number: int
    axis: int


@dataclass(frozen=True, eq=False)
class FoldedLoop:
    """A loop and what feeds it, cut out of a graph.

    Attributes:
        nodes: the loop's nodes, its lists, and their stacks; without control edges from outside.
        types: of their outputs; a negative size is unknown.
        inputs: tensors that come from outside.
        sizes: further tensors from outside, of whole numbers that are known or dimensions of inputs.
        outputs: tensors that others read.
    """

    nodes: tuple[NodeDef, ...]
    types: Mapping[str, list[OutputType]]
    inputs: tuple[str, ...]
    sizes: Mapping[str, NDArray[np.object_]]
    outputs: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Tells loops of one graph apart, and says which of different graphs are equal."""
        text = hashlib.sha256()
        for node in self.nodes:
            text.update(node.SerializeToString(deterministic=True))
        text.update(repr((self.inputs, self.outputs, [(k, v.tolist()) for k, v in self.sizes.items()])).encode())
        return text.hexdigest()


FoldedLoops: TypeAlias = Mapping[str, FoldedLoop]
"""The loops of a graph that one node each stands for, by the names of these nodes."""


def loop_node(name: str, found: FoldedLoop, device: str, controls: Sequence[str]) -> NodeDef:
    """The node that stands for a loop."""
    return NodeDef(name=name, op=STITCH_LOOP, device=device,
                   input=[*found.inputs, *found.sizes, *(f"^{c}" for c in controls)])


def put_back_loops(graph_def: GraphDef, loops: FoldedLoops) -> None:
    """Replaces each StitchLoop by the loop's nodes, in place; an IdentityN of its name hands the results on."""
    for node in [n for n in graph_def.node if n.op == STITCH_LOOP]:
        found = loops[node.name]
        given = [t for t in node.input if not t.startswith("^")]
        controls = [t for t in node.input if t.startswith("^")]
        now = dict(zip((*found.inputs, *found.sizes), given, strict=True))
        for source in found.nodes:
            inner = graph_def.node.add()
            inner.CopyFrom(source)
            inner.input[:] = [t if t.startswith("^") else now.get(canonical_tensor(t), t) for t in source.input]
            if source.op == "Enter":
                inner.input.extend(controls)
        end = NodeDef(name=node.name, op="IdentityN", device=node.device, input=found.outputs)
        end.attr["T"].list.type.extend(_type(found, t)[0] for t in found.outputs)
        node.CopyFrom(end)


def _type(found: FoldedLoop, tensor: str) -> OutputType:
    name, _, index = tensor.rpartition(":")
    return found.types[name][int(index)]


def most_common_device(nodes: Sequence[NodeDef]) -> str:
    return str(Counter(node.device for node in nodes).most_common(1)[0][0])
