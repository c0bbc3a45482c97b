"""CPUs: C, built by the system's compiler, in tasks of one thread each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.cpu import cpu_launches, join_cpu, render_cpu
from tf_stitch.emit.rendered import Packed, Rendered
from tf_stitch.families.registry import FAMILIES
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.libraries.gemm import STRIDED_GEMM
from tf_stitch.pass_manager import Pass
from tf_stitch.passes.context import PassContext
from tf_stitch.passes.cse import EliminateCommonSubexpressions
from tf_stitch.passes.depthwise_to_sums import DepthwiseToSums
from tf_stitch.passes.matmuls_to_kernels import MatmulsToKernels
from tf_stitch.passes.simplify_movement import SimplifyMovement
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_timer import time_on_host, with_timer
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.kernel_resources import KernelResources
from tf_stitch.runtime.timed_kernel import TimedKernel
from tf_stitch.targets.passes import SIMPLIFYING, Splitting
from tf_stitch.targets.target import Emission, Target

_UNIT = 1 << 30
"""Characters of source: all of it."""
_SPLITTING = Splitting(shortest=16384, column_tile=512, pad=False)
"""The test of the rim would cost the vector loop."""


def _passes(context: PassContext) -> tuple[Pass[TensorGraph], ...]:
    """Of the passes over matmuls one is here, where it is asked for: on a CPU no other was timed."""
    return (
        *SIMPLIFYING,
        DepthwiseToSums.where_faster(context),
        _SPLITTING.two_stages(context.device, context.reuse),
        *([MatmulsToKernels.in_tasks(context)] if context.matmul_kernels else []),
        SimplifyMovement(),  # splitting reshapes
        EliminateCommonSubexpressions(),  # after the others, which make equal nodes
    )


def _launches(programs: Sequence[tuple[str, Program]], launches: Sequence[Packed]) -> list[Rendered]:
    """Each launch runs one program, and is a function of its name."""
    return cpu_launches([(launch.name, programs[number][1]) for launch in launches for number in launch.members])


def _render(members: Sequence[Program], device: DeviceSpec) -> Rendered:
    [program] = members
    return render_cpu(program)


def _resources(library: Path) -> Mapping[str, KernelResources]:
    return {}


def _times(source: str, kernels: Sequence[TimedKernel], device: DeviceSpec, ordinal: int, cache: KernelCache
           ) -> list[float]:
    return time_on_host(build_host(with_timer(source), device.architecture, cache), kernels)


CPU_TARGET = Target("cpu", "CPU", "c", _SPLITTING, FAMILIES, (STRIDED_GEMM,), _passes,
                    Emission(_launches, _render, join_cpu, _UNIT), build_host, _resources, _times)
