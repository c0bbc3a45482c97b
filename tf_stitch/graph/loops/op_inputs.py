"""The inputs of the op that replaces a loop: tensors of the enclosing graph, each once."""

from __future__ import annotations

from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.loops.enclosing_graph import EnclosingGraph


class OpInputs:
    """In the order in which somebody asked for them; `types` are theirs."""

    def __init__(self, graph: EnclosingGraph) -> None:
        self._graph = graph
        self._numbers: dict[str, int] = {}
        self.types: list[OutputType] = []

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def number(self, tensor: str) -> int:
        """Which input of the op a tensor is; one more if it is none yet."""
        if tensor not in self._numbers:
            self._numbers[tensor] = len(self._numbers)
            self.types.append(self._graph.type(tensor))
        return self._numbers[tensor]
