"""NVIDIA GPUs: CUDA C++, built by NVRTC, in grids of blocks."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.device.profile import interpolate
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.cuda import cuda_launches, join_cuda, render_cuda
from tf_stitch.emit.rendered import Rendered
from tf_stitch.families.registry import FAMILIES
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.occupancy import launch_bound
from tf_stitch.libraries.attention import ATTENTION as ATTENTION_CALLS
from tf_stitch.libraries.cudnn import CUDNN
from tf_stitch.libraries.float8 import FLOAT8
from tf_stitch.libraries.gemm import GEMM
from tf_stitch.pass_manager import Pass
from tf_stitch.passes.attentions_to_calls import AttentionsToCalls
from tf_stitch.passes.batch_row_matmuls import BatchRowMatmuls
from tf_stitch.passes.context import PassContext
from tf_stitch.passes.convolutions_to_matmuls import ConvolutionsToMatmuls
from tf_stitch.passes.copy_outputs import CopyOutputs
from tf_stitch.passes.cse import EliminateCommonSubexpressions
from tf_stitch.passes.depthwise_to_sums import DepthwiseToSums
from tf_stitch.passes.fold_batch_into_k import FoldBatchIntoK
from tf_stitch.passes.fold_image_axes import FoldImageAxes
from tf_stitch.passes.fuse_summed_matmuls import FuseSummedMatmuls
from tf_stitch.passes.horizontal_gemm_fusion import HorizontalGemmFusion
from tf_stitch.passes.lower_gemv_to_reduction import LowerGemvToReduction
from tf_stitch.passes.matmuls_to_float8 import MatmulsToFloat8
from tf_stitch.passes.matmuls_to_kernels import MatmulsToKernels
from tf_stitch.passes.pad_matmuls import PadMatmuls
from tf_stitch.passes.pads_into_convolutions import PadsIntoConvolutions
from tf_stitch.passes.private_copies import PrivateCopies
from tf_stitch.passes.recompute import Recompute
from tf_stitch.passes.scales_into_filters import ScalesIntoFilters
from tf_stitch.passes.simplify_movement import SimplifyMovement
from tf_stitch.passes.split_terms import SplitTerms
from tf_stitch.passes.transposed_results import TransposedResults
from tf_stitch.passes.whole_dilated_convolutions import WholeDilatedConvolutions
from tf_stitch.passes.widen_rows import WidenRows
from tf_stitch.planning.matmul_sizes import SMALL_MATMUL, is_large
from tf_stitch.runtime.device_run import time_apart_on_device, time_on_device
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda, resources_of
from tf_stitch.runtime.timed_kernel import TimedKernel
from tf_stitch.targets.passes import SIMPLIFYING, Splitting
from tf_stitch.targets.target import LARGE, Emission, Target

_UNIT = 48_000
"""Characters of source, which NVRTC compiles in some 0.4 s; what a unit itself costs is 0.04 s."""
_SPLITTING = Splitting(shortest=2048, column_tile=128, pad=True)

_SPLIT_TERMS = SplitTerms(least_terms=8192, most_tiles=2, tile=128, parts=64)
"""Where cuBLASLt, which splits terms too, was measured to be slower (passes/split_terms.py)."""
_DILATED = frozenset((OpKind.CONVOLUTION, OpKind.CONVOLUTION_INPUT_GRAD))
_DILATED_AXES = 2
"""What cuDNN computes as fast dilated as of cut images; gradients of filters it computes up to three times slower.
Along one axis alone what is saved is lost to slower kernels."""


def _passes(context: PassContext) -> tuple[Pass[TensorGraph], ...]:
    device = context.device
    return (
        *SIMPLIFYING,
        WholeDilatedConvolutions(_DILATED, _DILATED_AXES),  # after channels are last, before depthwise ones are sums
        SimplifyMovement(),  # what joined them undoes a cut
        PadsIntoConvolutions(),  # what was in between is gone
        ConvolutionsToMatmuls(),  # before matmuls are fused
        FoldImageAxes(),  # before depthwise ones are sums
        DepthwiseToSums.where_faster(context),  # before sums are split
        ScalesIntoFilters.where_faster(context),  # after convolutions became matmuls
        TransposedResults(),
        FoldBatchIntoK(),  # before sums of columns are split
        FuseSummedMatmuls(),
        _SPLITTING.two_stages(device, context.reuse),
        BatchRowMatmuls(SMALL_MATMUL),  # before sums are made of them, one for each step
        LowerGemvToReduction.where_faster(context),  # after splitting: threads share the terms
        SimplifyMovement(),  # splitting and sums reshape
        EliminateCommonSubexpressions(),  # after the others, which make equal nodes
        MatmulsToFloat8.where_faster(context),  # before others put their operands together
        EliminateCommonSubexpressions(),  # scales, and transposes
        HorizontalGemmFusion(device.processors, interpolate(device.profile.bandwidth, LARGE),
                             device.profile.matmul_kernels),
        EliminateCommonSubexpressions(),  # matrices that lie side by side for several matmuls
        _SPLIT_TERMS,  # after matmuls were put together
        AttentionsToCalls.where_faster(context),
        SimplifyMovement(),  # heads that layers exchange with rows
        PrivateCopies.where_faster(context),  # from here on no equal nodes become one
        PadMatmuls.where_faster(context),  # after all that looks for matmuls and what is around them
        MatmulsToKernels.where_faster(context),
        WidenRows(),
        Recompute(is_large, device.profile.sizes.cycles_per_byte),
        CopyOutputs(),  # each would be a copy in the queue
    )


def _render(members: Sequence[Program], device: DeviceSpec) -> Rendered:
    return render_cuda(members, launch_bound(members, device))


def _times(source: str, kernels: Sequence[TimedKernel], device: DeviceSpec, ordinal: int, cache: KernelCache
           ) -> list[float]:
    return time_on_device(build_cuda(source, device.architecture, cache), kernels, ordinal)


def _times_apart(source: str, kernels: Sequence[TimedKernel], device: DeviceSpec, ordinal: int, cache: KernelCache
                 ) -> float:
    return time_apart_on_device(build_cuda(source, device.architecture, cache), kernels, ordinal)


CUDA_TARGET = Target("cuda", "GPU", "cu", _SPLITTING, FAMILIES, (GEMM, CUDNN, ATTENTION_CALLS, FLOAT8), _passes,
                     Emission(cuda_launches, _render, join_cuda, _UNIT), build_cuda, resources_of, _times, _times_apart)
