"""Keys of functions by what they compute. Names of nodes and functions do not count, since TensorFlow and Keras number
many of them. Nor does the order of nodes: of gradients it follows hashes of strings, which differ from run to run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

_CYCLE = "cycle"
"""In place of the key of what a node, or a function, is made of, where that is made of it in turn."""


class FunctionKeys:
    """
    Args:
        functions: by name; all that they call is among them.
    """

    def __init__(self, functions: Mapping[str, FunctionDef]) -> None:
        self._functions = functions
        self._found: dict[str, str] = {}

    def key(self, name: str) -> str:
        """Hex digits that are equal for functions which compute the same of arguments of the same shapes."""
        if name not in self._found:
            self._found[name] = _CYCLE
            self._found[name] = self._of(self._functions[name])
        return self._found[name]

    def _of(self, function: FunctionDef) -> str:
        found: dict[str, str] = {}
        arguments = []
        for place, argument in enumerate(function.signature.input_arg):
            shapes = function.arg_attr[place].attr.get("_output_shapes") if place in function.arg_attr else None
            arguments.append((argument.type, _bytes_of(shapes)))
            found[argument.name] = f"a{place}"
        nodes = {node.name: node for node in function.node_def}
        for node in _operands_first(nodes):
            found[node.name] = self._of_node(node, found)
        results = [_with_output(function.ret.get(result.name, ""), found) for result in function.signature.output_arg]
        return _digest(arguments, sorted(found[name] for name in nodes), results)

    def _of_node(self, node: NodeDef, found: Mapping[str, str]) -> str:
        op = self.key(node.op) if node.op in self._functions else node.op
        data = [_with_output(name, found) for name in node.input if not name.startswith("^")]
        control = sorted(found.get(name[1:], _CYCLE) for name in node.input if name.startswith("^"))
        attributes = [(key, self._text(node.attr[key])) for key in sorted(node.attr) if not key.startswith("_")]
        return _digest(op, data, control, attributes)

    def _text(self, value: AttrValue) -> object:
        names = names_of_functions(value)
        return [self.key(name) for name in names] if names else _bytes_of(value)


def names_of_functions(value: AttrValue) -> list[str]:
    """The functions that an attribute names."""
    if value.HasField("func"):
        return [value.func.name] if value.func.name else []
    return [function.name for function in value.list.func if function.name] if value.HasField("list") else []


def _operands_first(nodes: Mapping[str, NodeDef]) -> Iterator[NodeDef]:
    """Each node behind those that it reads or waits for, but for edges that close a loop. Takes linear time."""
    begun, done = set[str](), set[str]()
    for name in nodes:
        pending = [name]
        while pending:
            node = nodes[pending[-1]]
            if node.name not in begun:
                begun.add(node.name)
                pending += [other for other in map(_producer, node.input) if other in nodes and other not in begun]
                continue
            pending.pop()
            if node.name not in done:
                done.add(node.name)
                yield node


def _producer(edge: str) -> str:
    return edge.removeprefix("^").partition(":")[0]


def _with_output(edge: str, found: Mapping[str, str]) -> str:
    node, colon, output = edge.partition(":")
    return found.get(node, _CYCLE) + colon + output


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _bytes_of(value: AttrValue | None) -> bytes:
    return b"" if value is None else value.SerializeToString(deterministic=True)
