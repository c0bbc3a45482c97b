"""Reductions lose axes of one element behind the reduced ones, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import compiled, random_values, region, run_kernel_ir
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.passes.last_axes_of_one import LastAxesOfOne

B, F32 = Builder(), DType.F32
CASES = [((3, 8, 5, 1), (1,), (3, 8, 5)), ((3, 8, 1, 1), (0, 1), (3, 8)), ((4, 6, 1), (1,), (4, 6)),
         ((4, 1, 6), (0,), (4, 1, 6)), ((4, 6, 1), (2,), (4, 6, 1)), ((4, 6), (0,), (4, 6))]


@pytest.mark.parametrize(("shape", "axes", "reduced"), CASES, ids=str)
@pytest.mark.parametrize("kind", [OpKind.SUM, OpKind.MAX])
def test_what_is_reduced(kind: OpKind, shape: tuple[int, ...], axes: tuple[int, ...], reduced: tuple[int, ...]) -> None:
    graph = region("g", [B.reduce(kind, B.input("x:0", F32, shape), axes)])
    after = LastAxesOfOne().run(graph).graph
    verify_graph(after)
    [node] = [n for n in after.nodes() if isinstance(n.attrs, ReduceAttrs)]
    assert node.operands[0].type.shape == reduced
    values = random_values(graph)
    for got, want in zip(interpret(after, values).values(), interpret(graph, values).values(), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_pass_comes_to_rest() -> None:
    graph = region("g", [B.sum(B.input("x:0", F32, (3, 8, 5, 1)), [1])])
    once = LastAxesOfOne().run(graph)
    assert once.modified
    assert not LastAxesOfOne().run(once.graph).modified


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_channels_of_an_instance_norm_are_columns(device: DeviceSpec) -> None:
    """Whose groups have a channel each: threads next to each other had rows, as many numbers apart."""
    x = B.exp(B.input("x:0", F32, (1, 8, 8, 64, 1)))
    graph = region("g", [B.sum(x, [1, 2]), B.sum(B.square(x), [1, 2])])
    found = compiled(graph, device)
    for kernel in found.kernels:
        dominant = kernel.schedule.dominant
        assert dominant.operands[0].type.dims[-1] != 1
    values = random_values(graph)
    want = interpret(graph, values)
    for key, got in run_kernel_ir(graph, found, values).items():
        np.testing.assert_allclose(got, want[key], rtol=1e-5)
