"""Edits of a graph that are collected node by node and applied at once."""

from __future__ import annotations

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.imported_graph import producer_of, topological
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.pruning import prune
from tf_stitch.graph.rewired_graph import rewired_graph
from tf_stitch.graph.state import GraphState


class GraphEdit:
    """What is to be taken out of a graph and put into it.

    Attributes:
        state: the graph as it is.
        order: its nodes in topological order.
        defs: its nodes by name.
        users: name -> the nodes that read the node's data or wait for it.
        gone: names of nodes to take out.
        new: nodes to put in, with their types in `new_types` unless they take over a node's name.
        renamed: "node:index" -> the tensor in its place; "^node" -> "^node" to wait for in its place.
    """

    def __init__(self, state: GraphState) -> None:
        self.state = state
        self.defs = {node.name: node for node in state.graph_def.node}
        self.order = list(topological(self.defs))
        self.users: dict[str, list[NodeDef]] = {}
        for node in self.order:
            for name in dict.fromkeys(producer_of(edge) for edge in node.input):
                self.users.setdefault(name, []).append(node)
        self.gone: set[str] = set()
        self.new: list[NodeDef] = []
        self.new_types: dict[str, list[OutputType]] = {}
        self.renamed: dict[str, str] = {}

    def types(self, name: str) -> list[OutputType]:
        """Types of the outputs of a node of the graph, or of a new one."""
        return self.new_types[name] if name in self.new_types else self.state.types_of(name)

    def free_name(self, name: str) -> str:
        """The name.

        Raises:
            UnsupportedError: a node has it.
        """
        if name in self.defs:
            raise UnsupportedError(f"a node is called {name}")
        return name

    def applied(self) -> GraphState:
        """The state with the edited graph; what only removed nodes needed is gone, too."""
        out = rewired_graph(self.state.graph_def, self.gone, self.new, self.renamed)
        prune(out, self.state.graph_def, self.state.preserved)
        return self.state.with_graph(out, self.types)
