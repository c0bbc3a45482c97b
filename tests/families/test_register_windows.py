"""Weighted sums over windows that GPUs keep in registers: against the definition in float64, in kernel IR and as CUDA
source on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential.runner import (
    build_cubin,
    compare,
    compiled,
    random_values,
    reference,
    region,
    run_kernel_ir,
)
from tests.families.test_windows import depthwise
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.compiler.template_kernels import possible_kernels, templated
from tf_stitch.compiler.tilings import template_of
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ScheduleError, VerifyError
from tf_stitch.families import register_windows
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, key_of, users_of
from tf_stitch.ir.op_attrs import ConvolutionAttrs, WindowsAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.cost import array_registers
from tf_stitch.kernel_ir.count_work import count_work
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.kernel_ir.text_format import format_program
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import arrays, rewritten, statements
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.passes.depthwise_to_sums import DepthwiseToSums, of_few_channels
from tf_stitch.planning.pattern import Pattern, make_pattern
from tf_stitch.templates import parse_template

B, F32, F16, BF16 = Builder(), DType.F32, DType.F16, DType.BF16


def summed(*outputs: Node) -> TensorGraph:
    return DepthwiseToSums(lambda node: True, lambda node: False).run(region("g", list(outputs))).graph


def pattern_of(graph: TensorGraph) -> Pattern:
    outputs = frozenset(node for _, node in graph.outputs)
    inner = [node for node in graph.nodes() if node.kind is not OpKind.INPUT]
    return make_pattern(inner, users_of(graph.nodes()), outputs, frozenset())


def kernel_of(graph: TensorGraph) -> LoweredKernel:
    kernel = compile_pattern(pattern_of(graph), H200)
    assert kernel.schedule.family == register_windows.NAME
    return kernel


def check(graph: TensorGraph, kernel: LoweredKernel) -> None:
    """Of one output, by the interpreter."""
    verify_program(kernel.program)
    values = random_values(graph)
    want, allowed = reference(graph, values)
    [(key, node)] = graph.outputs
    memory = {b.name: np.full(b.size, np.nan).astype(b.dtype.numpy) if mode is Mode.WRITE
              else values[key_of(argument)].reshape(-1)
              for b, (argument, mode) in zip(kernel.program.parameters, kernel.arguments, strict=True)}
    interpret_program(kernel.program, memory)
    [written] = [memory[b.name] for b in kernel.program.parameters if b.mode is Mode.WRITE]
    compare(graph, {key: written.reshape(node.type.dims)}, want, allowed, str(template_of(kernel.schedule)))


def wanted(*args: object, **kwargs: object) -> TensorGraph:
    out = depthwise(*args, **kwargs)  # type: ignore[arg-type]
    assert out is not None
    return summed(out)


@pytest.mark.parametrize(("size", "extent", "stride", "dilation", "padding", "channels", "dtype"), [
    ((9, 9), (3, 3), (1, 1), (1, 1), (1, 1), 8, F32), ((9, 11), (3, 3), (2, 2), (1, 1), (1, 1), 16, BF16),
    ((7, 7), (7, 7), (1, 1), (1, 1), (3, 3), 16, F16), ((8, 30), (7, 7), (1, 1), (1, 1), (3, 3), 16, BF16),
    ((5, 40), (5, 5), (1, 2), (1, 1), (0, 0), 7, F32), ((12, 12), (11, 11), (1, 1), (1, 1), (5, 5), 6, F16),
    ((6, 50), (3, 5), (1, 1), (2, 3), (2, 6), 5, F32), ((3, 3), (3, 3), (1, 1), (1, 1), (2, 2), 4, DType.F64)])
def test_layers(size: tuple[int, int], extent: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int],
                padding: tuple[int, int], channels: int, dtype: DType) -> None:
    """What follows the sums is in the kernel; with odd numbers of channels a thread has one."""
    graph = wanted(size, extent, stride, dilation, padding, channels, 2, dtype)
    check(graph, kernel_of(graph))


@pytest.mark.parametrize("together", [2, 3, 5, 14])
@pytest.mark.parametrize(("width", "dtype", "vector"), [(30, F32, 2), (19, BF16, 8), (14, F16, 4)])
def test_windows_of_a_thread(together: int, width: int, dtype: DType, vector: int) -> None:
    """However many: those at the rim of the image have bodies of their own, the last of which has what is left."""
    graph = wanted((4, width), (3, 7), padding=(1, 3), channels=8, dtype=dtype, images=1)
    kernel = kernel_of(graph)
    text = f"*[GRID,GRID-THREAD_{together},GRID-CTA_64-THREAD_{vector}];"
    check(graph, templated(parse_template(text), kernel, H200, True))


@pytest.mark.parametrize("together", [1, 2, 3])
def test_a_wide_rim_has_no_body_for_each_group(together: int) -> None:
    """Each element is asked whether it is inside, and each window whether it is one."""
    graph = wanted((3, 20), (3, 11), dilation=(1, 3), padding=(1, 15), channels=4, images=1)
    text = f"*[GRID,GRID-THREAD_{together},GRID-CTA_64-THREAD_2];"
    kernel = templated(parse_template(text), kernel_of(graph), H200, True)
    assert not any(isinstance(s, k.If) and s.orelse for s in statements(kernel.program.body))
    check(graph, kernel)


def test_a_kernel(golden: Callable[[str, str], None]) -> None:
    graph = wanted((3, 8), (3, 3), padding=(1, 1), channels=4, images=1, dtype=BF16)
    kernel = templated(parse_template("*[GRID,GRID-THREAD_3,GRID-CTA_64-THREAD_2];"), kernel_of(graph), H200, True)
    golden("windows_in_registers", format_program(kernel.program))


def test_products_are_rounded_with_what_they_are_added_to() -> None:
    """Terms of one op of the user's. A sum that is said to be fused is of products."""
    graph = wanted((3, 8), (3, 3), padding=(1, 1), channels=16, images=1)
    assert "fmaf(" in compiled(graph, H200).source
    kernel = kernel_of(graph)

    def no_product(stmt: k.Stmt) -> k.Stmt:
        return replace(stmt, value=k.Literal(1.0, F32)) if isinstance(stmt, k.SetElement) and stmt.fused else stmt

    with pytest.raises(VerifyError, match="no product"):
        verify_program(replace(kernel.program, body=rewritten(kernel.program.body, no_product)))


def test_a_thread_has_arrays_of_one_branch() -> None:
    """Two groups at the rim of the image and those inside: three bodies, of which a thread runs one."""
    graph = wanted((3, 42), (3, 3), padding=(1, 1), channels=16, images=1)
    text = "*[GRID,GRID-THREAD_14,GRID-CTA_64-THREAD_2];"
    program = templated(parse_template(text), kernel_of(graph), H200, True).program
    sums = [a for a in arrays(program.body) if a.size == 14 * 2]
    assert len(sums) == 3
    assert 28 <= array_registers(program) < sum(a.size for a in arrays(program.body)) / 2
    assert count_work(program).registers == array_registers(program)


_pairs = lambda least, most: st.tuples(st.integers(least, most), st.integers(least, most))  # noqa: E731


@settings(max_examples=25)
@given(_pairs(1, 13), _pairs(1, 7), _pairs(1, 4), _pairs(1, 3), _pairs(0, 4), st.integers(1, 9), st.integers(1, 14))
def test_windows_anywhere(size: tuple[int, int], extent: tuple[int, int], stride: tuple[int, int],
                          dilation: tuple[int, int], padding: tuple[int, int], channels: int, together: int) -> None:
    """Height and width differ, and windows may lie outside of the image."""
    out = depthwise(size, extent, stride, dilation, padding, channels, 1)
    if out is None:
        return
    graph = summed(out)
    [schedule] = register_windows.propose_register_windows(pattern_of(graph), H200, True)
    mapping = replace(schedule.mapping, items=min(together, out.type.dims[2]))
    schedule = replace(schedule, mapping=mapping)
    mapping = register_windows.with_threads(schedule, 64)
    check(graph, register_windows.lower_register_windows(replace(schedule, mapping=mapping)))


def test_on_every_level() -> None:
    """Of a region as users have it; the CUDA source runs on a CPU, and is built."""
    graph = region("g", [out for out in [depthwise((6, 9), (3, 3), padding=(1, 1), channels=32, dtype=BF16)] if out])
    found = compiled(graph, H200)
    assert [kernel.schedule.family for kernel in found.kernels] == [register_windows.NAME]
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, found, values), want, allowed, "kernel IR")
    compare(graph, run_on_cpu(graph, found, values, Adversary(Order.SHUFFLED)), want, allowed, "CUDA on a CPU")
    build_cubin(found)


def test_gradient_of_an_image() -> None:
    gradient, filters = B.input("g:0", BF16, (2, 9, 9, 16)), B.input("w:0", BF16, (16, 5, 5, 1))
    attrs = ConvolutionAttrs((1, 1), (1, 1), (2, 2), 16, (9, 9))
    graph = summed(B.convolution(OpKind.CONVOLUTION_INPUT_GRAD, gradient, filters, attrs))
    check(graph, kernel_of(graph))


def test_what_an_image_is_made_of_is_in_the_kernel() -> None:
    """Zeros around what is computed are not computed, and a half that is made of a number is rounded before it is
    multiplied."""
    x = B.input("x:0", F32, (1, 8, 8, 16))
    image = B.cast(B.add(B.maximum(x, B.scalar_like(0, x)), B.scalar_like(0.5, x)), BF16)
    w = B.input("w:0", BF16, (16, 3, 3, 1))
    y = B.convolution(OpKind.CONVOLUTION, image, w, ConvolutionAttrs((1, 1), (1, 1), (1, 1), 16))
    graph = summed(B.add(y, B.input("r:0", BF16, (1, 8, 8, 16))))
    kernel = kernel_of(graph)
    assert len(kernel.program.parameters) == 4
    check(graph, kernel)


def test_how_many_windows_a_thread_has() -> None:
    """Many of large images, so that much is shared; few of small ones, so that all processors have threads."""
    def together(batch: int, size: int, channels: int) -> int:
        graph = wanted((size, size), (7, 7), padding=(3, 3), channels=channels, images=batch, dtype=BF16)
        [schedule] = register_windows.propose_register_windows(pattern_of(graph), H200, True)
        return schedule.mapping.items

    assert together(32, 56, 96) == 14
    assert together(32, 14, 384) == 14
    assert together(1, 14, 384) < 7


def test_templates_of_a_pattern() -> None:
    graph = wanted((4, 9), (3, 3), padding=(1, 1), channels=8, images=1)
    kernel = kernel_of(graph)
    found = list(possible_kernels(kernel, H200, True))
    assert len(found) > 6
    assert {(f.schedule.mapping.vector, f.schedule.mapping.items) for f in found} >= {(1, 1), (2, 4), (4, 7)}
    for text in ("*[GRID,GRID-THREAD_10,GRID-CTA_64-THREAD_2];", "*[GRID,GRID-THREAD_2,GRID-CTA_64-THREAD_16];"):
        with pytest.raises(ScheduleError):
            templated(parse_template(text), kernel, H200, True)


def test_what_it_does_not_take() -> None:
    seen = B.windows(B.input("x:0", F32, (1, 6, 6, 8)), WindowsAttrs((4, 4), (3, 3), (1, 1), (1, 1)))
    total = B.sum(B.mul(seen, B.input("w:0", F32, (3, 3, 8))), (3, 4))
    propose = register_windows.propose_register_windows
    with pytest.raises(ScheduleError, match="on GPUs"):
        propose(pattern_of(region("g", [total])), CPU, True)
    with pytest.raises(ScheduleError, match="none of the sums"):
        propose(pattern_of(region("g", [total, B.slice(total, (0,) * 4, (1,) * 4, (1, 2, 4, 8))])), H200, True)
    each = B.sum(B.mul(seen, B.input("w:0", F32, (1, 4, 4, 3, 3, 8))), (3, 4))
    with pytest.raises(ScheduleError, match="window to window"):
        propose(pattern_of(region("g", [each])), H200, True)


def test_few_channels_are_summed_in_rows() -> None:
    images = [B.input("x:0", dtype, (1, 6, 6, c)) for dtype, c in ((F32, 7), (F32, 8), (BF16, 15), (BF16, 16))]
    nodes = [B.convolution(OpKind.CONVOLUTION, x, B.input("w:0", x.type.dtype, (x.type.dims[-1], 3, 3, 1)),
                           ConvolutionAttrs((1, 1), (1, 1), (0, 0), x.type.dims[-1])) for x in images]
    assert [of_few_channels(node) for node in nodes] == [True, False, True, False]
