"""A function as TensorFlow keeps it, with all that it calls, and a key that is the same in each run of a program."""

from __future__ import annotations

from collections.abc import Iterator

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager.context import Context

from tf_stitch.plugin.function_key import FunctionKeys, names_of_functions


class FunctionDefinition:
    """
    Attributes:
        functions: the function itself, then those that it calls, in the order in which it names them.

    Raises:
        NotFoundError: it calls one that TensorFlow does not have.
    """

    def __init__(self, ctx: Context, name: bytes) -> None:
        self._name = name.decode()
        self._by_name = {self._name: ctx.get_function_def(self._name)}
        self.functions: list[FunctionDef] = [self._by_name[self._name]]
        for function in self.functions:  # which grows
            for node in function.node_def:
                own = [node.op] if ctx.has_function(node.op) else []  # TensorFlow 1's calls are ops of that name
                for called in (*own, *_called(node)):
                    if called not in self._by_name:
                        self._by_name[called] = ctx.get_function_def(called)
                        self.functions.append(self._by_name[called])

    def nodes(self) -> Iterator[NodeDef]:
        """The nodes of all functions."""
        for function in self.functions:
            yield from function.node_def

    @property
    def size(self) -> int:
        """In bytes: nearly all of a large one is constants."""
        return sum(function.ByteSize() for function in self.functions)

    def key(self) -> str:
        """Hex digits that are equal for functions which compute the same (plugin/function_key.py)."""
        return FunctionKeys(self._by_name).key(self._name)


def _called(node: NodeDef) -> Iterator[str]:
    for value in node.attr.values():
        yield from names_of_functions(value)
