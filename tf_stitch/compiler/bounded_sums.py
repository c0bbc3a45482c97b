"""Sums of kernels get their levels last: neither which kernels there are nor how they are scheduled depends on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.lowering.kernel import LoweredKernel, with_bounded_sums
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class BoundedSums:
    """Bounds how many additions follow each other in every sum (docs/decisions/rounding.md)."""

    name: str = "bounded_sums"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        work = tuple(with_bounded_sums(one) if isinstance(one, LoweredKernel) else one for one in kernels.work)
        return PassResult(replace(kernels, work=work), modified=work != kernels.work)
