"""Copies the nodes of functions into a graph, calls within them, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import TypeAlias

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager import context

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.control_flow import CALLS
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.frontend.tensorflow.memory_types import has_gpu_kernel
from tf_stitch.frontend.tensorflow.op_outputs import op_outputs
from tf_stitch.graph.graph_item import OutputType

FunctionOf: TypeAlias = Callable[[str], FunctionDef | None]



def known_function(name: str) -> FunctionDef | None:
    """A function that this program has traced; None if it has none of this name, as in a graph of a v1 session."""
    eager = context.context()
    return eager.get_function_def(name) if eager.has_function(name) else None


class Inliner:
    """Collects nodes and their types, of which nothing is known but the dtype.

    Args:
        device: of the op that calls. Nodes without a kernel for a GPU are put beside it.
    """

    def __init__(self, device: str, function_of: FunctionOf) -> None:
        self._device, self._function_of = device, function_of
        self.nodes: list[NodeDef] = []
        self.types: dict[str, list[OutputType]] = {}

    def add(self, node: NodeDef, dtypes: Sequence[int]) -> str:
        """Adds a node; its first output."""
        on_gpu = device_type(self._device) == "GPU"
        node.device = self._device if not on_gpu or has_gpu_kernel(node) else _beside(self._device)
        self.nodes.append(node)
        self.types[node.name] = [(dtype, None) for dtype in dtypes]
        return f"{node.name}:0"

    def inline(self, name: str, scope: str, arguments: Sequence[str], pivot: str) -> list[str]:
        """Copies what a function's results need.

        Args:
            scope: what the copies' names begin with.
            arguments: tensors of the graph.
            pivot: the node that nodes without inputs wait for.

        Returns:
            the results, as tensors of the graph.

        Raises:
            UnsupportedError: the function is unknown, or has effects beside its results.
        """
        function = self._function_of(name)
        if function is None:
            raise UnsupportedError(f"the function {name} is not known to Python")
        if function.control_ret:
            raise UnsupportedError(f"the function {name} does more than give results")
        tensors = dict(zip((a.name for a in function.signature.input_arg), arguments, strict=True))
        defs = {node.name: node for node in function.node_def}
        results = [function.ret[result.name] for result in function.signature.output_arg]
        for node in _needed(defs, results):
            copy = NodeDef()
            copy.CopyFrom(node)
            copy.name = f"{scope}/{node.name}"
            data = [tensors[edge] for edge in node.input if not edge.startswith("^")]
            waits = [f"^{scope}/{edge[1:]}" for edge in node.input if edge.startswith("^")]
            called = self._function_of(node.attr["f"].func.name if node.op in CALLS else node.op)
            if called is not None and waits:
                raise UnsupportedError(f"{node.name} in the function {name} waits for other nodes")
            outputs = op_outputs(node, None if called is None or node.op in CALLS else called.signature)
            if called is not None:
                given = self.inline(called.signature.name, copy.name, data, pivot)
            else:
                copy.input[:] = [*data, *waits] or [f"^{pivot}"]
                self.add(copy, [output.dtype for output in outputs])
                given = [f"{copy.name}:{i}" for i in range(len(outputs))]
            tensors |= {f"{node.name}:{o.name}": t for o, t in zip(outputs, given, strict=True)}
        return [tensors[result] for result in results]


def _needed(defs: Mapping[str, NodeDef], results: Sequence[str]) -> list[NodeDef]:
    """The nodes behind results, in an order in which they can run."""
    inputs: dict[str, list[str]] = {}
    pending = [_node(result) for result in results]
    while pending:
        name = pending.pop()
        if name in defs and name not in inputs:
            inputs[name] = [source for edge in defs[name].input if (source := _node(edge)) in defs]
            pending += inputs[name]
    return [defs[name] for name in TopologicalSorter(inputs).static_order()]


def _node(edge: str) -> str:
    return edge.removeprefix("^").partition(":")[0]


def _beside(device: str) -> str:
    return f"{device.rpartition('/device:')[0]}/device:CPU:0"
