"""Sums of kernels get their levels last: neither which kernels there are nor how they are scheduled depends on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.kernel_ir.nodes import Program, Stmt
from tf_stitch.lowering.bounded_sums import bounded_sums
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class BoundedSums:
    """Bounds how many additions follow each other in every sum (docs/decisions/rounding.md)."""

    name: str = "bounded_sums"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        bodies = _BoundedBodies()
        work = tuple(bodies.bounded(one) if isinstance(one, LoweredKernel) else one for one in kernels.work)
        modified = any(new is not old for new, old in zip(work, kernels.work, strict=True))
        return PassResult(replace(kernels, work=work), modified)


class _BoundedBodies:
    """Bounds sums of each body once: kernels of equal layers share one (lowering/rebind.py)."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Program, tuple[Stmt, ...]]] = {}

    def bounded(self, kernel: LoweredKernel) -> LoweredKernel:
        """The same kernel if its sums are bounded."""
        program = kernel.program
        known = self._known.get((id(program.body), program.threads))
        if known is None:  # with the program, so that no other body gets this id
            known = self._known[id(program.body), program.threads] = program, bounded_sums(program).body
        body = known[1]
        return kernel if body is program.body else replace(kernel, program=replace(program, body=body))
