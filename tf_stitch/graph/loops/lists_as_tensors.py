"""Lists of tensors that a while loop takes and makes, as tensors whose rows are the elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.dtypes import DT_VARIANT
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.graph.loops.enclosing_graph import EnclosingGraph
from tf_stitch.graph.loops.induction_variables import InductionVariables
from tf_stitch.graph.loops.loop_list_uses import ListUse, ListUses, Use
from tf_stitch.ir.op_attrs import ConstantAttrs
from tf_stitch.ir.op_kinds import OpKind

TAKES = frozenset({"TensorListGetItem", "TensorListPopBack"})
"""Ops that take an element out of a list."""

_OF_TENSOR = "TensorListFromTensor"

_BEGIN = {Use.PUSHED: ("EmptyTensorList",), Use.WRITTEN: ("TensorListReserve", _OF_TENSOR),
          Use.SUMMED: ("ZerosLike", "TensorListReserve")}
"""What lists that a loop fills are at first: without elements, zeros, or rows of a tensor that it overwrites."""


@dataclass(frozen=True)
class StackedList:
    """A list of tensors outside of loops that is there as one tensor, whose rows are the elements.

    Attributes:
        distinct: the elements are whole numbers, no two alike.
    """

    tensor: str
    distinct: bool = False


@dataclass(frozen=True)
class ListResult:
    """A list that a loop hands out, as the rows of a tensor.

    Attributes:
        element_shape: the tensor that said what shape elements have.
        distinct: see StackedList.
    """

    element_shape: str
    distinct: bool


class LoopLists:
    """The lists of one loop.

    Args:
        graph: gets the nodes that make tensors of lists.
        stacked: lists that come from loops which have been cut out before, by their tensors.
    """

    def __init__(self, variables: LoopVariables, induction: InductionVariables, graph: EnclosingGraph,
                 stacked: Mapping[str, StackedList]) -> None:
        self._variables, self._induction = variables, induction
        self._graph, self._stacked = graph, stacked
        self._uses = ListUses(variables, variables.defs, lambda tensor: _is_zero(graph.imported, tensor))

    def is_list(self, variable: LoopVariable) -> bool:
        return self._graph.types(variable.enter.name)[0][0] == DT_VARIANT

    def use(self, variable: LoopVariable) -> ListUse:
        """
        Raises:
            UnsupportedError: the list is used in a way that rows do not allow.
        """
        return self._uses.of(variable)

    def index(self, take: NodeDef) -> str:
        """The number of the element that a node takes out of a list, "" for the last."""
        return "" if take.op == "TensorListPopBack" else self._variables.seen_through(take.input[1])

    def source(self, variable: LoopVariable) -> StackedList:
        """The tensor whose rows are the elements of a list that comes in.

        Raises:
            UnsupportedError: there is none.
        """
        stacked = self._stacked.get(variable.initial)
        if stacked is not None:
            return stacked
        node = self._begin(variable)
        if node.op == _OF_TENSOR:
            return StackedList(canonical_tensor(node.input[0]))
        like = self._stacked.get(canonical_tensor(node.input[0])) if node.op == "ZerosLike" else None
        if like is None:
            raise UnsupportedError(f"it goes on with a list of {node.name} ({node.op})")
        zeros = NodeDef(name=node.name, op="ZerosLike", device=node.device, input=[like.tensor])
        type_ = self._graph.type(like.tensor)
        zeros.attr["T"].type = type_[0]
        return StackedList(self._graph.add(zeros, [type_]))

    def result(self, variable: LoopVariable) -> ListResult:
        """What is known of a list that the loop fills.

        Raises:
            UnsupportedError: it cannot be a tensor, each row of which is written once.
        """
        use, node = self.use(variable), self._begin(variable)
        if node.op not in _BEGIN[use.use]:
            raise UnsupportedError(f"a list of {node.name} ({node.op}) is {use.use.value} to")
        if use.use is Use.SUMMED and not self.is_distinct(use.index):
            raise UnsupportedError("it may add to an element of a list twice")
        given = node.input[1 if node.op == _OF_TENSOR else 0]
        shape = self._variables.from_outside(use.shape) if use.use is Use.SUMMED else canonical_tensor(given)
        if shape is None:
            raise UnsupportedError("the shape of a list's elements is computed")
        return ListResult(shape, self.is_distinct(use.item))

    def under(self, variable: LoopVariable) -> str | None:
        """The tensor whose rows a list has at first that the loop fills; None if it has none, or zeros."""
        node = self._begin(variable)
        return canonical_tensor(node.input[0]) if node.op == _OF_TENSOR else None

    def rows(self, variable: LoopVariable) -> str:
        """The tensor outside that says how long a list is that the loop fills by numbers.

        Raises:
            UnsupportedError: the loop computes it.
        """
        use, node = self.use(variable), self._begin(variable)
        rows = self._variables.from_outside(use.rows) if use.use is Use.SUMMED else canonical_tensor(node.input[1])
        if rows is None:
            raise UnsupportedError("the length of a list is computed")
        return rows

    def begins_empty(self, variable: LoopVariable) -> bool:
        """Whether a list that the loop fills is known to have no elements at first."""
        return self._induction.is_zero(canonical_tensor(self._begin(variable).input[1]))

    def is_distinct(self, index: str) -> bool:
        """Whether a tensor of the loop is another number in each iteration."""
        variable, node = self._variables.by_tensor.get(index), self._variables.defs[producer_of(index)]
        if variable is not None:
            return self._induction.step(variable) != 0
        if node.op != "TensorListPopBack":
            return False
        popped = self._variables.by_tensor.get(self._variables.seen_through(node.input[0]))
        return popped is not None and self.source(popped).distinct

    def _begin(self, variable: LoopVariable) -> NodeDef:
        """The node outside that made a list."""
        return self._graph.defs[producer_of(variable.initial)]


def _is_zero(imported: ImportedGraph, tensor: str) -> bool:
    value = imported.value(tensor)
    while value is not None and value.kind in (OpKind.BROADCAST, OpKind.RESHAPE):
        value = value.operands[0]
    return value is not None and isinstance(value.attrs, ConstantAttrs) and not value.attrs.value.any()
