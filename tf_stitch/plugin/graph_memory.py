"""What a graph takes in memory when TensorFlow runs it: an estimate, by the sizes of what its nodes hand to others."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.graph.graph_item import OutputType

_VIEWS = frozenset(("Bitcast", "ExpandDims", "Identity", "IdentityN", "PreventGradient", "Reshape", "Squeeze",
                    "StopGradient"))
"""Ops whose outputs lie in the memory of their inputs."""
_THERE = frozenset(("_Arg", "_Retval", "BroadcastGradientArgs", "OptionalFromValue", "ReadVariableOp"))
"""Ops whose outputs are in memory before the graph runs, were counted where they were computed, or are on the host."""
_KEEPS = frozenset(("_Retval", "OptionalFromValue"))
"""Ops that hand on what they read to the caller."""
_ELSEWHERE = (tf.resource, tf.string)
"""Types whose values are on the host, or not the graph's."""

Tensor = tuple[str, int]
Types = Callable[[str], Sequence[OutputType]]
"""Output types of a node, as graph.graph_item.GraphItem has them."""


def live_bytes(graph: GraphDef, types: Types, sizes: Mapping[int, int]) -> int | None:
    """Bytes that are alive at once, at most: of each value, from the node that computes it to the last one that reads
    it, and of constants always. Nodes run in the order in which TensorFlow's executor finds them ready. Scratch memory
    of libraries is not counted. None where nobody can tell: a size is unknown, or a node runs other functions.

    Args:
        sizes: of dimensions that are unknown to the graph, by their negative numbers.
    """
    nodes = list(_as_they_run(graph))
    if len(nodes) < len(graph.node) or any(map(_runs_functions, nodes)):
        return None
    root: dict[Tensor, Tensor] = {}
    own: dict[Tensor, int] = {}
    made: dict[str, list[Tensor]] = {}
    for node in nodes:
        read = _read(node)
        made[node.name] = []
        for place, (dtype, dims) in enumerate(types(node.name)):
            tensor = node.name, place
            if node.op in _VIEWS and place < len(read):
                root[tensor] = root.get(read[place], read[place])
                continue
            here = 0 if node.op in _THERE or "CPU:" in node.device else _bytes(dtype, dims, sizes)
            if here is None:
                return None
            own[tensor] = here
            made[node.name].append(tensor)
    reads = Counter(root.get(tensor, tensor) for node in nodes for tensor in _read(node))
    reads.update((node.name, 0) for node in nodes if node.op == "Const")  # they stay
    alive = most = 0
    for node in nodes:
        alive += sum(own[tensor] for tensor in made[node.name])
        most = max(most, alive)
        if node.op in _KEEPS:
            continue  # what it reads stays
        for tensor in (root.get(tensor, tensor) for tensor in _read(node)):
            reads[tensor] -= 1
            alive -= 0 if reads[tensor] else own[tensor]
        alive -= sum(own[tensor] for tensor in made[node.name] if not reads[tensor])
    return most


def _as_they_run(graph: GraphDef) -> Iterator[NodeDef]:
    """Each node behind those that it waits for, the ones that were ready first before others. Nodes of loops that are
    no functions are left out, with all that waits for them."""
    waits = {node.name: len(node.input) for node in graph.node}
    readers: defaultdict[str, list[NodeDef]] = defaultdict(list)
    for node in graph.node:
        for edge in node.input:
            readers[producer_of(edge)].append(node)
    ready = deque(node for node in graph.node if not node.input)
    while ready:
        node = ready.popleft()
        yield node
        for reader in readers[node.name]:
            waits[reader.name] -= 1
            if not waits[reader.name]:
                ready.append(reader)


def _read(node: NodeDef) -> list[Tensor]:
    edges = [edge.partition(":") for edge in node.input if not edge.startswith("^")]
    return [(name, int(place or 0)) for name, _, place in edges]


def _runs_functions(node: NodeDef) -> bool:
    return any(value.HasField("func") or value.list.func for value in node.attr.values())


def _bytes(dtype: int, dims: Sequence[int] | None, sizes: Mapping[int, int]) -> int | None:
    """None if that is unknown."""
    kind = tf.as_dtype(dtype)
    if kind in _ELSEWHERE:
        return 0
    known = [sizes.get(dim, -1) if dim < 0 else dim for dim in dims or ()]
    unknown = dims is None or kind == tf.variant or any(dim < 0 for dim in known)
    return None if unknown else math.prod(known) * kind.size
