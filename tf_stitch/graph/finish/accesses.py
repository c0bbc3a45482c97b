"""Which nodes of a graph read or update which variables, and other resources: tables, queues, arrays of tensors.

(Lists of tensors are values: each op makes a new list of another, and their order is that of the data.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.op_def_pb2 import OpDef
from tensorflow.python.framework import op_def_registry

from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES
from tf_stitch.frontend.tensorflow.dtypes import DT_RESOURCE
from tf_stitch.frontend.tensorflow.held_handles import held_numbers
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor
from tf_stitch.frontend.tensorflow.own_ops import REGIONS
from tf_stitch.frontend.tensorflow.variable_ops import HELD_HANDLE

_HAND_ON = frozenset({"Identity", "Snapshot", "_Retval", *SWITCHES, *MERGES, *ENTERS, *EXITS, *NEXT_ITERATIONS})
"""Ops whose result is the handle that they are given."""
_READS = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp", "VariableShape",
                    "TensorArrayReadV3", "TensorArrayGatherV3", "TensorArraySizeV3", "TensorArrayConcatV3"})


@dataclass(frozen=True)
class Access:
    """A node that reads or updates a resource.

    Attributes:
        resource: what the resource is called; several that a branch or a loop may hand on are one.
        writes: it may do more than read.
    """

    node: NodeDef
    resource: str
    writes: bool


class Resources:
    """Tells resources of graphs apart; the same in graphs that are rewritten from each other."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def accesses(self, *graphs: GraphDef) -> list[list[Access]]:
        """The accesses of each graph. Sees all graphs first: a resource is what it may be in any of them."""
        found = [[(node, self._given(node)) for node in graph.node] for graph in graphs]
        return [[Access(node, resource, node.op not in _READS) for node, given in nodes if given
                 for resource in dict.fromkeys(map(self._resource, given))] for nodes in found]

    def _given(self, node: NodeDef) -> Sequence[str]:
        """The tensors of resources that an access is given; none of what hands them on alone."""
        if node.op == HELD_HANDLE:
            self._join(f"{node.name}:0", f"held {held_numbers(node)[0]}")
            return ()
        if node.op == "VarHandleOp":
            if name := node.attr["shared_name"].s:
                self._join(f"{node.name}:0", f"named {name!r} {node.attr['container'].s!r}")
            return ()
        given = [canonical_tensor(node.input[i]) for i in _resource_inputs(node)]
        if node.op in _HAND_ON:
            for tensor in given:
                for index in range(_outputs(node)):
                    self._join(f"{node.name}:{index}", tensor)
            return ()
        if node.op == "IdentityN":
            for i in _resource_inputs(node):
                self._join(f"{node.name}:{i}", canonical_tensor(node.input[i]))
            return ()
        return [*given, *(f"held {number}" for number in held_numbers(node))]

    def _resource(self, tensor: str) -> str:
        while (parent := self._parents.get(tensor, tensor)) != tensor:
            self._parents[tensor] = self._parents.get(parent, parent)
            tensor = parent
        return tensor

    def _join(self, one: str, other: str) -> None:
        one, other = self._resource(one), self._resource(other)
        if one != other:
            self._parents[one] = other


def _outputs(node: NodeDef) -> int:
    return node.attr["num_outs"].i if node.op == "_SwitchN" else 2 if node.op in SWITCHES else 1


def _resource_inputs(node: NodeDef) -> list[int]:
    """Places of the inputs that are resources."""
    if node.op in REGIONS:  # which TensorFlow need not know
        first = len(node.attr["Tin"].list.type)
        return list(range(first, first + node.attr["N"].i))
    if not _may_take_resources(node.op):
        return []
    op_def = op_def_registry.get(node.op)
    if op_def is None:  # a function that is called by its name
        return []
    return [i for i, dtype in enumerate(_input_types(node, op_def)) if dtype == DT_RESOURCE]


@cache
def _may_take_resources(op: str) -> bool:
    op_def = op_def_registry.get(op)
    if op_def is None:
        return False
    allowed = {attr.name: attr.allowed_values.list.type for attr in op_def.attr if attr.HasField("allowed_values")}
    return any(arg.type == DT_RESOURCE or ((of := arg.type_attr or arg.type_list_attr)
                                           and (of not in allowed or DT_RESOURCE in allowed[of]))
               for arg in op_def.input_arg)  # fmt: skip


def _input_types(node: NodeDef, op_def: OpDef) -> Iterator[int]:
    for arg in op_def.input_arg:
        if arg.type_list_attr:
            yield from node.attr[arg.type_list_attr].list.type
        else:
            dtype = node.attr[arg.type_attr].type if arg.type_attr else arg.type
            yield from [dtype] * (node.attr[arg.number_attr].i if arg.number_attr else 1)
