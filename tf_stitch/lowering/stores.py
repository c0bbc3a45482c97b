"""Writes the outputs of a kernel, by vectors where lanes are neighbours."""

from __future__ import annotations

from tf_stitch.ir.graph import Node
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, delinearize, var
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex, is_vector


class ElementStores:
    """Stores of element-level outputs inside a loop over lanes; `flush` follows the loop."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._pending: list[k.StoreVector] = []

    def declare(self, outputs: list[tuple[Node, str]], lane: Var | None) -> dict[str, str]:
        """Arrays that gather a vector per output; call before the loop over lanes."""
        if lane is None:
            return {}
        arrays: dict[str, str] = {}
        for node, buffer in outputs:
            arrays[buffer] = self._evaluator.out.fresh("y")
            note = self._evaluator.pattern.name(node)
            self._evaluator.out.emit(k.Array(arrays[buffer], node.type.dtype.compute, lane.extent, note=note))
        return arrays

    def store(self, node: Node, buffer: str, flat: Index, lane: Var | None, arrays: dict[str, str]) -> None:
        """buffer[flat] = the element `flat` of node."""
        self.store_at(node, buffer, delinearize(flat, node.type.dims), flat, lane, arrays)

    def store_at(self, node: Node, buffer: str, index: MultiIndex, flat: Index, lane: Var | None,
                 arrays: dict[str, str]) -> None:
        """The same, its multi-index known."""
        value = self._evaluator.value(node, index)
        if lane is not None and is_vector(flat, lane):
            self._evaluator.out.emit(k.SetElement(arrays[buffer], var(lane), value))
            self._pending.append(k.StoreVector(buffer, flat - var(lane), arrays[buffer], lane.extent))
        else:
            self._evaluator.out.emit(k.Store(buffer, flat, value))

    def flush(self) -> None:
        for stmt in self._pending:
            self._evaluator.out.emit(stmt)
        self._pending.clear()


def store_row_values(evaluator: Evaluator, node: Node, buffer: str, row: Index, rows: int) -> None:
    """buffer[row] = the row-level value of node, or its few neighbours for each of `rows` rows."""
    width = 1 if node.type.numel == rows else node.type.numel // rows
    for i in range(width):
        at = row * width + i
        evaluator.out.emit(k.Store(buffer, at, evaluator.value(node, delinearize(at, node.type.dims))))


def first_of(thread: Index) -> k.Expr | None:
    """The condition `thread` == 0; None if it can be nothing else."""
    return None if thread == constant(0) else k.InRange(thread, 0, 1)
