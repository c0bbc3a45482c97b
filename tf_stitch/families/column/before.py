"""Short reductions that columns wait for: every block of the kernel has them by itself, all its threads together,
before it begins with its columns. What a norm knows of a single row costs each block a few loads so, and no launch."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.reductions import initial
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, constant, delinearize, var
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.lowering.reduce import accumulator
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.planning.pattern import between
from tf_stitch.schedule.kernel_schedule import KernelSchedule

UNROLLED = 16
"""Elements of a thread that are loaded together."""


class ShortReductionsBefore:
    """Emits the reductions of a pattern that are not of its columns."""

    def __init__(self, schedule: KernelSchedule, evaluator: Evaluator, out: ScopedEmitter) -> None:
        self._pattern, self._threads = schedule.pattern, schedule.mapping.threads
        self._evaluator, self._out = evaluator, out

    def emit(self, columns: Sequence[Node]) -> None:
        """Args:
            columns: the reductions of columns.
        """
        for together in self._in_turn(columns):
            self._reduce(together)

    def _in_turn(self, columns: Sequence[Node]) -> list[list[Node]]:
        """Those that wait for no other of as many elements come together."""
        turn: dict[Node, int] = {}
        groups: dict[tuple[int, int], list[Node]] = {}
        for node in between(self._pattern):
            turn[node] = max((turn.get(operand, 0) for operand in node.operands), default=0)
            if node.category is Category.REDUCTION and node not in columns:
                groups.setdefault((turn[node], node.operands[0].type.numel), []).append(node)
                turn[node] += 1
        return [groups[key] for key in sorted(groups)]

    def _reduce(self, nodes: Sequence[Node]) -> None:
        out, count = self._out, nodes[0].operands[0].type.numel
        names = {node: out.fresh("all") for node in nodes}
        out.emit(k.Comment("each block has all of this", self._pattern.names(nodes)))
        for node, name in names.items():
            for stmt in accumulator(node, name, self._pattern.name(node)):
                out.emit(stmt)
        item = Var("item", ceil_div(count, self._threads))
        at = var(item) * self._threads + var(Var(k.THREAD, self._threads))
        inside = None if count % self._threads == 0 else k.InRange(at, 0, count)
        with out.loop(item, k.Loop.UNROLL if item.extent <= UNROLLED else k.Loop.SERIAL):
            own = at if inside is None else out.clamped(out.fresh("own"), at, count)
            for node, name in names.items():
                operand = node.operands[0]
                value = self._evaluator.value(operand, delinearize(own, operand.type.dims))
                if inside is not None:
                    nothing = k.Literal(initial(node), value.dtype)
                    value = k.Apply(OpKind.SELECT, (inside, value, nothing), value.dtype)
                out.emit(k.Update(name, node.kind, value))
        out.emit(k.AllReduce(tuple((name, node.kind) for node, name in names.items()), self._threads))
        for node, name in names.items():
            self._evaluator.reduced[node] = (k.Local(name, node.operands[0].type.dtype.compute), constant(0))
