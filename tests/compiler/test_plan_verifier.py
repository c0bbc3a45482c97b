"""What the verifier of plans refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import keys_of, region
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import planned_kernels
from tf_stitch.compiler.plan_verifier import verify_plan
from tf_stitch.device.spec import H200
from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType


@pytest.fixture
def kernels() -> KernelPlan:
    """A kernel, a library call of its result, and a kernel of the call's."""
    x, w = p.B.input("x:0", DType.F32, (64, 256)), p.B.input("w:0", DType.F32, (256, 512))
    graph = region("g", [p.softmax(p.B.dot(p.softmax(x), w))])
    found = planned_kernels(graph, *keys_of(graph), CompileOptions(H200))
    verify_plan(found)
    assert len(found.work) == 3
    return found


def test_a_node_without_a_pattern(kernels: KernelPlan) -> None:
    with pytest.raises(VerifyError, match="is in no pattern"):
        verify_plan(replace(kernels, plan=replace(kernels.plan, patterns=kernels.plan.patterns[1:])))


def test_a_node_in_two_patterns(kernels: KernelPlan) -> None:
    first = kernels.plan.patterns[0]
    with pytest.raises(VerifyError, match="is in two patterns"):
        verify_plan(replace(kernels, plan=replace(kernels.plan, patterns=[first, *kernels.plan.patterns])))


def test_kernels_that_run_too_early(kernels: KernelPlan) -> None:
    with pytest.raises(VerifyError, match="is read before it is written"):
        verify_plan(replace(kernels, work=kernels.work[::-1]))
