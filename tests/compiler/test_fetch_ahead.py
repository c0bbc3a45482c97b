"""What kernels ask for before they wait for those before them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import build_cubin, compare, keys_of, random_values, reference, region
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.compiler.pipeline import CompiledRegion, CompileOptions, compile_region
from tf_stitch.device.spec import H200, DeviceSpec, gpu_spec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.planner import PlanOptions

B, F32 = p.B, DType.F32


def compiled(graph: TensorGraph, device: DeviceSpec = H200) -> CompiledRegion:
    """A launch for each kernel, as where there are many."""
    return compile_region(graph, *keys_of(graph), CompileOptions(device, PlanOptions(barriers=False)))


def asked(built: CompiledRegion) -> list[list[str]]:
    """Names of the tensors that each kernel asks for."""
    return [[str(node.attrs.text).split(",")[0] for buffer, (node, _) in
             zip(kernel.program.parameters, kernel.arguments, strict=True) if buffer.name in kernel.program.ahead]
            for kernel in built.kernels]


def layers() -> list[Node]:
    """Matmuls of a row, each with its matrix."""
    x = B.input("x", F32, (1, 512))
    for name in "vw":
        x = B.maximum(B.dot(x, B.input(name, F32, (512, 512))), p.const(0.0, x))
    return [x]


def test_matrices_of_the_region_and_nothing_that_is_made_or_small() -> None:
    assert asked(compiled(region("g", layers()))) == [["key=v"], ["key=w"]]


def test_the_source_asks_before_it_waits_and_nvrtc_takes_it() -> None:
    graph = region("g", layers())
    built = compiled(graph)
    launch = built.source[built.source.index("launch_0("):]
    assert 0 < launch.index("tfs_fetch_ahead(p0_") < launch.index("tfs_begin();")
    build_cubin(built)
    values = random_values(graph)
    compare(graph, run_on_cpu(graph, built, values, Adversary(Order.BEHIND)), *reference(graph, values), "CUDA")


def picked() -> TensorGraph:
    """Few rows of a table."""
    rows = B.op(OpKind.GATHER, B.input("table", F32, (5000, 64)), B.input("at", DType.I32, (3,)))
    return region("picked", [B.exp(rows)])


def test_what_is_read_in_part_is_not_asked_for() -> None:
    assert asked(compiled(picked())) == [[]]


@pytest.mark.parametrize("device", [gpu_spec(H200.profile, "80"), replace(H200, fetches_ahead=False)],
                         ids=lambda d: d.architecture)
def test_devices_that_cannot_or_are_not_to(device: DeviceSpec) -> None:
    assert not any(asked(compiled(region("g", layers()), device)))
