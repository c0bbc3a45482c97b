"""Times of a library's matmuls and of sums in their place, made up."""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.pattern import Pattern

B, F32 = Builder(), DType.F32


@dataclass
class MatmulTimes:
    """A library's call takes 1 us, a sum `sum_us`."""

    sum_us: float | None
    asked: list[Pattern] = field(default_factory=list)
    least_us = 0.0
    profile = H200.profile

    def estimate(self, pattern: Pattern) -> float | None:
        return self.exact(pattern)

    def exact(self, pattern: Pattern) -> float | None:
        self.asked.append(pattern)
        return 1.0 if pattern.nodes[0].kind is OpKind.DOT else self.sum_us


FAST, SLOW, NO_KERNEL = 0.5, 2.0, None


def matmul(rows: int, terms: int, columns: int) -> Node:
    return B.dot(B.input("x", F32, (rows, terms)), B.input("y", F32, (terms, columns)), False, False)
