"""A function as TensorFlow keeps it, with all that it calls, and a key that is the same in each run of a program."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager.context import Context


class FunctionDefinition:
    """
    Attributes:
        functions: the function itself, then those that it calls, in the order in which it names them.

    Raises:
        NotFoundError: it calls one that TensorFlow does not have.
    """

    def __init__(self, ctx: Context, name: bytes) -> None:
        self._numbers = {name.decode(): 0}
        self.functions: list[FunctionDef] = [ctx.get_function_def(name.decode())]
        for function in self.functions:  # which grows
            for node in function.node_def:
                own = [node.op] if ctx.has_function(node.op) else []  # TensorFlow 1's calls are ops of that name
                for called in (*own, *_called(node)):
                    if called not in self._numbers:
                        self._numbers[called] = len(self.functions)
                        self.functions.append(ctx.get_function_def(called))

    def nodes(self) -> Iterator[NodeDef]:
        """The nodes of all functions."""
        for function in self.functions:
            yield from function.node_def

    @property
    def size(self) -> int:
        """In bytes: nearly all of a large one is constants."""
        return sum(function.ByteSize() for function in self.functions)

    def key(self) -> str:
        """Hex digits that are equal for functions which compute the same of arguments of the same shapes.

        Names of nodes and functions do not count: TensorFlow and Keras number many of them.
        """
        digest = hashlib.sha256()
        for function in self.functions:
            for place, argument in enumerate(function.signature.input_arg):
                shapes = function.arg_attr[place].attr.get("_output_shapes") if place in function.arg_attr else None
                digest.update(f"{argument.type} {_bytes_of(shapes)!r}\n".encode())
            places = {argument.name: f"a{place}" for place, argument in enumerate(function.signature.input_arg)}
            places |= {node.name: str(place) for place, node in enumerate(function.node_def)}
            for node in function.node_def:
                op = self._numbers.get(node.op, node.op)
                digest.update(f"{op} {[_place(name, places) for name in node.input]}\n".encode())
                for key in sorted(node.attr):
                    if not key.startswith("_"):
                        digest.update(key.encode() + self._text(node.attr[key]))
        return digest.hexdigest()

    def _text(self, value: AttrValue) -> bytes:
        names = _names(value)
        return repr([self._numbers[name] for name in names]).encode() if names else _bytes_of(value)


def _called(node: NodeDef) -> Iterator[str]:
    for value in node.attr.values():
        yield from _names(value)


def _names(value: AttrValue) -> list[str]:
    """Of the functions that an attribute names."""
    if value.HasField("func"):
        return [value.func.name] if value.func.name else []
    return [function.name for function in value.list.func if function.name] if value.HasField("list") else []


def _place(name: str, places: dict[str, str]) -> str:
    """An input with its node's place for its name."""
    control, node = name.startswith("^"), name.removeprefix("^")
    node, colon, output = node.partition(":")
    return ("^" if control else "") + places.get(node, node) + colon + output


def _bytes_of(value: AttrValue | None) -> bytes:
    return b"" if value is None else value.SerializeToString(deterministic=True)
