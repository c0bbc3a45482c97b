"""Weighted sums over windows that stay in registers, on a GPU: layers of networks, and tilings that the rules do not
propose."""

from __future__ import annotations

import pytest

from tests.differential.gpu_run import run_gpu
from tests.differential.runner import compare, compiled, random_values, reference, region
from tests.families.test_windows import depthwise
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.config import ForcedTemplate
from tf_stitch.device.spec import H200
from tf_stitch.families import register_windows
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.runtime.device_run import gpu_is_here
from tf_stitch.templates import parse_template

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_is_here(), reason="no GPU")]
F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
LAYERS = [
    (2, 56, 96, 7, 1, BF16), (2, 28, 192, 7, 1, BF16), (3, 14, 384, 7, 1, F16), (2, 7, 768, 7, 1, BF16),
    (1, 112, 16, 3, 1, F32), (2, 113, 64, 3, 2, F32), (2, 28, 120, 5, 1, F32), (1, 29, 77, 5, 2, F32),
    (1, 30, 41, 11, 1, F16), (2, 15, 48, 9, 2, BF16), (1, 9, 24, 3, 1, DType.F64)]  # fmt: skip


def layer(images: int, size: int, channels: int, extent: int, stride: int, dtype: DType, dilation: int = 1
          ) -> TensorGraph:
    pad = dilation * (extent // 2)
    out = depthwise((size, size + 2), (extent, extent), (stride, stride), (dilation, dilation), (pad, pad), channels,
                    images, dtype)
    assert out is not None
    return region("g", [out])


def check(graph: TensorGraph, found: CompiledRegion, aligned: bool = True) -> None:
    assert register_windows.NAME in [kernel.schedule.family for kernel in found.kernels]
    values = random_values(graph)
    want, allowed = reference(graph, values)
    got = run_gpu(graph, found, values, runs=2, aligned=aligned)
    compare(graph, got, want, allowed, "GPU")


@pytest.mark.parametrize("layer_of", LAYERS, ids=str)
def test_layers(layer_of: tuple[int, int, int, int, int, DType]) -> None:
    graph = layer(*layer_of)
    check(graph, compiled(graph, H200))


@pytest.mark.parametrize("dilation", [2, 3])
def test_dilations(dilation: int) -> None:
    graph = layer(1, 31, 32, 5, 1, BF16, dilation)
    check(graph, compiled(graph, H200))


def test_no_vectors_where_buffers_begin_anywhere() -> None:
    graph = layer(1, 20, 32, 3, 1, F32)
    check(graph, compiled(graph, H200, aligned=False), aligned=False)


@pytest.mark.parametrize("vector", [1, 2, 4, 8])
@pytest.mark.parametrize("together", [2, 5, 14])
def test_tilings(together: int, vector: int) -> None:
    graph = layer(1, 28, 64, 7, 1, BF16)
    text = f"*[GRID,GRID-THREAD_{together},GRID-CTA_128-THREAD_{vector}];"
    templates = TemplateChoice(H200, True, (ForcedTemplate("*", parse_template(text)),))
    found = compile_region(graph, *arguments_of(graph), CompileOptions(H200, templates=templates))
    assert (vector, together) in [(k.schedule.mapping.vector, k.schedule.mapping.items) for k in found.kernels]
    check(graph, found)
