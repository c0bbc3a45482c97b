"""The graph that a while loop is cut out of: its nodes, who reads them, the types of its tensors, and the nodes that it
gets because the op in the loop's place reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.dtypes import of_enum
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, producer_of
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.graph.graph_item import OutputType, as_shape, as_tensorflow
from tf_stitch.ir.types import Shape


class EnclosingGraph:
    """Around one loop. `new` are the nodes added so far, by name.

    Args:
        loop: what new nodes are named after.
        imported: the graph as it was imported.
        defs: the graph's nodes by name.
        users: node -> nodes that use it.
    """

    def __init__(self, loop: str, imported: ImportedGraph, types_of: TypesOf, defs: Mapping[str, NodeDef],
                 users: Mapping[str, Sequence[NodeDef]]) -> None:
        self.imported, self.defs = imported, defs
        self._loop, self._types_of, self._users = loop, types_of, users
        self.new: dict[str, NodeDef] = {}
        self._new_types: dict[str, list[OutputType]] = {}

    def users(self, node: NodeDef) -> Sequence[NodeDef]:
        return self._users.get(node.name, ())

    def is_read(self, node: NodeDef) -> bool:
        """Whether somebody reads a tensor of the node, beside who waits for it."""
        return any(not t.startswith("^") and producer_of(t) == node.name
                   for user in self.users(node) for t in user.input)

    def add(self, node: NodeDef, types: Sequence[OutputType]) -> str:
        """Adds a node that has one output, under a name of the loop's; its tensor."""
        node.name = f"{self._loop}/stitched/{node.name}"
        self.new[node.name], self._new_types[node.name] = node, list(types)
        return f"{node.name}:0"

    def types(self, name: str) -> list[OutputType]:
        """Types of a node's outputs, of the new ones' too."""
        return self._new_types.get(name) or self._types_of(name)

    def type(self, tensor: str) -> OutputType:
        """The type of a tensor, with sizes as TensorFlow counts them; -1 is unknown.

        Raises:
            UnsupportedError: the IR lacks its element type.
        """
        name, _, index = tensor.rpartition(":")
        enum, dims = self.types(name)[int(index)]
        if of_enum(enum) is None:
            raise UnsupportedError(f"{tensor} has a type that the IR lacks")
        value = self.imported.value(tensor) if name in self.imported.nodes else None
        if value is None:
            return enum, dims
        known = dims if dims is not None and len(dims) == value.type.rank else (-1,) * value.type.rank
        return enum, tuple(as_tensorflow(d, have) for d, have in zip(value.type.shape, known, strict=True))

    def ranked_type(self, tensor: str) -> tuple[int, tuple[int, ...]]:
        """As `type`.

        Raises:
            UnsupportedError: the IR lacks its element type, or its rank is unknown.
        """
        enum, dims = self.type(tensor)
        if dims is None:
            raise UnsupportedError(f"nothing is known of the rank of {tensor}")
        return enum, dims

    def shape(self, tensor: str) -> Shape | None:
        """The shape of a tensor, as it was imported, else as TensorFlow has it; None if its rank is unknown.

        Raises:
            UnsupportedError: the IR lacks its element type.
        """
        value = self.imported.value(tensor) if producer_of(tensor) in self.imported.nodes else None
        if value is not None:
            return value.type.shape
        dims = self.type(tensor)[1]
        return None if dims is None else as_shape(dims, tensor)
