"""What holds of a plan after every plan pass."""

from __future__ import annotations

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.errors import VerifyError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.planning.free_nodes import plannable


def verify_plan(kernels: KernelPlan) -> None:
    """Checks that each node with work in it is in one pattern, and that kernels read what earlier ones wrote.

    Raises:
        VerifyError: the message names the node.
    """
    plan = kernels.plan
    planned = [node for pattern in plan.patterns for node in pattern.nodes]
    work = plannable(plan.graph, plan.free)
    once = set(planned)
    for node in work:
        if node not in once:
            raise VerifyError(f"{node} is in no pattern", node.loc)
    if len(planned) != len(once):
        twice = next(node for node in planned if planned.count(node) > 1)
        raise VerifyError(f"{twice} is in two patterns", twice.loc)
    written: set[Node] = set()
    for one in kernels.work:
        for node, mode in one.arguments:
            if mode is Mode.READ and node.category is not Category.SOURCE and node not in written:
                raise VerifyError(f"{node} is read before it is written", node.loc)
        written |= {node for node, mode in one.arguments if mode in (Mode.WRITE, Mode.UPDATE)}
