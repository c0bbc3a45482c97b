"""Where values of functions come from, through identities and calls of other functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_flow import CALLS

_MOST_CALLS = 16
"""Of functions in functions: TensorFlow's may call themselves."""


@dataclass(frozen=True)
class Origin:
    """
    Attributes:
        scope: whose node, or argument, it is.
        argument: its place among the arguments of the outermost function; None: a node's.
        node: that computes it; None: an argument's, or not known.
        output: the place of the value among the node's results, those of one name alone.
    """

    scope: Scope
    argument: int | None = None
    node: NodeDef | None = None
    output: int = 0

    def operands(self) -> list[Origin]:
        """The operands of the node."""
        assert self.node is not None
        return [self.scope.origin(value) for value in self.node.input if not value.startswith("^")]


class Scope:
    """A function, perhaps one that is called.

    Args:
        functions: those that nodes name.
        given: where the arguments come from, of a function that is called; depth: how many calls it is in.
    """

    def __init__(self, function: FunctionDef, functions: Mapping[str, FunctionDef],
                 given: Sequence[Origin] | None = None, depth: int = 0) -> None:
        self._functions = functions
        self._function, self._given, self._depth = function, given, depth
        self._nodes = {node.name: node for node in function.node_def}
        self._places = {argument.name: place for place, argument in enumerate(function.signature.input_arg)}

    def function(self, name: str) -> Scope:
        """Another one, of whose arguments nothing is known."""
        return Scope(self._functions[name], self._functions)

    def result(self, place: int) -> Origin:
        """The origin of a result of the function."""
        return self.origin(self._function.ret[self._function.signature.output_arg[place].name])

    def origin(self, value: str) -> Origin:
        """The origin of an argument's name, or of "node:name of the result:place"."""
        name, _, rest = value.partition(":")
        result, _, place = rest.partition(":")
        node = self._nodes.get(name)
        if node is None:
            argument = self._places.get(name)
            return Origin(self, argument) if self._given is None or argument is None else self._given[argument]
        if node.op == "Identity":
            return self.origin(node.input[0])
        called = self._functions.get(node.attr["f"].func.name if node.op in CALLS else node.op)
        if called is None or self._depth == _MOST_CALLS:
            return Origin(self, node=node, output=int(place or 0))
        inner = Scope(called, self._functions, Origin(self, node=node).operands(), self._depth + 1)
        if node.op in CALLS:
            return inner.result(int(place or 0))
        return inner.origin(called.ret[result])
