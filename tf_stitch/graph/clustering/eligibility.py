"""Which nodes of a graph regions may hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import ImportedNode, producer_of
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.frontend.tensorflow.size_names import parts
from tf_stitch.frontend.tensorflow.variable_ops import HELD_HANDLE
from tf_stitch.graph.clustering.host_memory import integers_on_host
from tf_stitch.graph.passes.all_reduces import ALL_REDUCE, IN_STREAMS
from tf_stitch.graph.passes.exchanges import EXCHANGE
from tf_stitch.graph.state import GraphState
from tf_stitch.ir.graph import Node

OUTSIDE = "an index is decided at run time, and kernels on a GPU do not raise where it is outside"
OF_ANOTHER_TASK = "is on a device of another process"
ON_THE_CPU = "is on a GPU, and regions that run in Python (TF_STITCH_WRAP=py_function) are on the CPU"
"""Its kernels and TensorFlow's of a GPU differ in casts of what no integer is, and in indices that are outside."""


class Eligibility:
    """Says of each node why no region may hold it.

    Args:
        state: the graph.
        defs: its nodes by name.
        fetched: names of nodes whose results somebody asks for.
        contexts: the branches and loops that a node is in.
        native, why_not: as ClusterOptions has them.

    Attributes:
        refused: node -> why, for those that the user wants left alone, and that turned out not to fit.
    """

    def __init__(self, state: GraphState, defs: Mapping[str, NodeDef], fetched: frozenset[str],
                 contexts: Mapping[str, object], native: bool, why_not: Callable[[str], str | None]) -> None:
        self._sure, self._imported = state.sure, state.imported
        self._fetched, self._contexts = fetched, contexts
        self._native, self._library_on, self._is_own = native, state.library_on, state.is_own
        self._written = {h for n in self._imported.nodes.values() if n.reason is None for h in n.writes}
        self._integers_on_host = integers_on_host(self._imported, defs)
        asked = ((n.name, why_not(n.name)) for n in self._imported.nodes.values() if n.reason is None)
        self.refused = {name: reason for name, reason in asked if reason is not None}

    def why_not(self, node: ImportedNode) -> str | None:
        """Why no region may hold a node, or None."""
        if not self._is_own(node.device):
            return OF_ANOTHER_TASK
        if node.op in (ALL_REDUCE, EXCHANGE):
            return IN_STREAMS
        if node.reason is not None or node.name in self.refused:
            return node.reason or self.refused[node.name]
        if self._contexts[node.name] and self._sure.nodes[node.name].reason is not None:
            return self._sure.nodes[node.name].reason
        if device_type(node.device) == "GPU" and not self._native:
            return ON_THE_CPU
        if node.checks and device_type(node.device) == "GPU":
            return OUTSIDE
        if node.op == "Const":
            return "a constant, which regions copy or read"
        if not (node.outputs or node.writes):
            return "has no result"
        if any(v is None for v in node.outputs) and node.name in self._fetched:
            return "has a result that the IR has no value for, and somebody asks for it"
        if (node.writes or node.reads) and not self._native:
            return "reads or updates a variable, which regions that run in Python cannot"
        if self._is_empty(node):
            return "a tensor here has no elements, which would keep its whole region from being built"
        if self._imported.data_sizes and self._sized_by_data(node):
            self.refused[node.name] = "its size is decided by data, every step anew"
            return self.refused[node.name]
        if node.op == "ReadVariableOp" and not self._read_belongs(node):
            return "reads a variable that no region updates: regions take its result"
        if node.name in self._integers_on_host:
            return "TensorFlow has this small integer in host memory"
        return None

    def _is_empty(self, node: ImportedNode) -> bool:
        """Whether it computes, or really reads, a tensor known to be empty. (A concatenation reads no such part.)"""
        given = {self._imported.value(t) for t in node.inputs}
        seen: set[Node] = set()  # a maximum of many has many ways to each of them
        stack = [v for v in (*node.outputs, *node.writes.values()) if v is not None]
        while stack:
            value = stack.pop()
            if 0 in value.type.shape:
                return True
            if value not in given and value not in seen:
                stack.extend(value.operands)
            seen.add(value)
        return False

    def _sized_by_data(self, node: ImportedNode) -> bool:
        operands = [self._imported.value(t) for t in node.inputs]
        return any(part.name in self._imported.data_sizes
                   for v in (*node.outputs, *operands, *node.writes.values()) if v is not None for d in v.type.shape
                   for part in parts(d))

    def _read_belongs(self, node: ImportedNode) -> bool:
        """A read is worth a place in a region beside the update of its variable; and where regions are whole steps,
        if nobody in the graph writes it."""
        return self._native and (any(h in self._written for h in node.reads) or self.reads_constant(node))

    def reads_constant(self, node: ImportedNode) -> bool:
        """Whether a read is of a variable that nobody writes, which a region of all matmuls takes, and one that holds
        it."""
        whole = self._library_on.get(device_type(node.device) or "CPU", Matmuls.SMALL) is not Matmuls.SMALL
        return all(h in self._imported.constant_handles and (whole or self._is_held(h)) for h in node.reads)

    def _is_held(self, handle: str) -> bool:
        return self._imported.nodes[producer_of(handle)].op == HELD_HANDLE
