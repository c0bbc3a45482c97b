"""Matmuls of few rows, and kernels that compute them as sums: by the families, and by other tilings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.program_times import timed_kernels
from tf_stitch.compiler.template_kernels import templated
from tf_stitch.compiler.tilings import template_of
from tf_stitch.device.spec import H200
from tf_stitch.errors import ScheduleError
from tf_stitch.families.registry import lower
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph, users_of
from tf_stitch.libraries.gemm import Gemm
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.passes.lower_gemv_to_reduction import as_sum
from tf_stitch.planning.free_nodes import plannable
from tf_stitch.planning.pattern import make_pattern
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tf_stitch.runtime.timed_kernel import TimedKernel
from tf_stitch.templates import parse_template
from tools.benchmark.cublas_lt import matmul

Sizes = tuple[int, int, int, int]
"""batch, m, k, n."""
COLUMNS: tuple[Sizes, ...] = (
    (1, 1, 512, 512), (1, 1, 512, 2048), (1, 1, 2048, 512), (1, 1, 768, 3072), (1, 1, 1024, 1024), (1, 1, 4096, 4096),
    (1, 1, 512, 30000), (1, 1, 256, 64), (8, 1, 37, 64), (8, 1, 64, 64), (1, 2, 512, 512), (1, 4, 512, 512),
    (1, 8, 512, 512), (1, 2, 512, 2048), (1, 4, 512, 2048), (1, 4, 2048, 512))  # fmt: skip
"""x W."""
ROWS: tuple[Sizes, ...] = (
    (1, 1, 512, 512), (1, 1, 2048, 512), (1, 1, 512, 30000), (8, 1, 64, 37), (1, 2, 512, 512), (1, 4, 512, 512),
    (1, 4, 512, 30000))  # fmt: skip
"""x W^T, W stored as [n, k]."""
ACROSS, ROW_THREADS, BLOCKS, WAVES = (2, 4, 8, 16, 32), (4, 8, 16, 32, 64, 128), (128, 256, 512, 1024), (1, 2, 4)
MOST_ITEMS = 16
TOGETHER = (4, 16)
"""Rows of a column that a thread loads together."""


@dataclass(frozen=True)
class BuiltKernel:
    """A kernel of a matmul, to be launched.

    Attributes:
        arguments: "x", "w" or "y" for each parameter.
    """

    name: str
    cubin: Path
    kernel: TimedKernel
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A matmul, and the kernels that compute it as a sum, the family's first."""

    gemm: Gemm
    kernels: tuple[LoweredKernel, ...]

    @property
    def name(self) -> str:
        g = self.gemm
        batch = f"{g.batch} x " if g.batch > 1 else ""
        return f"{batch}[{g.m},{g.k}] " + (f"[{g.n},{g.k}]^T" if g.b.transposed else f"[{g.k},{g.n}]")

    def build(self, cache: KernelCache) -> list[BuiltKernel]:
        """All kernels."""
        source, kernels = timed_kernels([kernel.program for kernel in self.kernels], H200)
        cubin = build_cuda(source, H200.architecture, cache)
        return [BuiltKernel(_name(kernel), cubin, timed, _arguments(kernel))
                for timed, kernel in zip(kernels, self.kernels, strict=True)]  # fmt: skip


def cases() -> list[Case]:
    """All of them; nothing is built yet."""
    matmuls = [*(matmul(DType.F32, s, False) for s in COLUMNS), *(matmul(DType.F32, s, True) for s in ROWS)]
    return [Case(gemm, tuple(_kernels(gemm))) for gemm in matmuls]


def _kernels(gemm: Gemm) -> Iterator[LoweredKernel]:
    default = _by_the_rules(gemm)
    yield default
    seen = {default.program}
    for text in _rows(default) if gemm.b.transposed else _columns(default):
        try:
            tiled = templated(parse_template(text), default, H200, True)
        except ScheduleError:
            continue  # a tiling that this matmul cannot have
        for together in (0,) if gemm.b.transposed else TOGETHER:
            found = lower(replace(tiled.schedule, together=together))
            if found.program not in seen:
                seen.add(found.program)
                yield found


def _by_the_rules(gemm: Gemm) -> LoweredKernel:
    b = Builder()
    stored = (gemm.n, gemm.k) if gemm.b.transposed else (gemm.k, gemm.n)
    x, w = (b.input(key, gemm.dtype, (gemm.batch, *dims)) for key, dims in (("x", (gemm.m, gemm.k)), ("w", stored)))
    written = as_sum(b.dot(x, w, False, gemm.b.transposed))
    assert written is not None
    graph = TensorGraph("matmul", [("y", written)])
    nodes = plannable(graph, frozenset())
    pattern = make_pattern(nodes, users_of(graph.nodes()), frozenset({written}), frozenset())
    return PatternCompiler(H200, True).compile(pattern)


def _name(kernel: LoweredKernel) -> str:
    together = kernel.schedule.together
    return f"{template_of(kernel.schedule)}{f' {together} rows together' if together else ''}"


def _arguments(kernel: LoweredKernel) -> tuple[str, ...]:
    return tuple(getattr(node.attrs, "key", "y") for node, _ in kernel.arguments)


def _columns(default: LoweredKernel) -> Iterator[str]:
    vector, inner = default.schedule.mapping.vector, default.schedule.dominant.operands[0].type.dims[-1]
    outer = "GRID," if default.schedule.domain.rows > inner else ""
    for across in ACROSS:
        for block in BLOCKS[1:]:
            yield f"*[{outer}THREAD-CTA_{block // across},GRID-CTA_{across}-THREAD_{vector}];"


def _rows(default: LoweredKernel) -> Iterator[str]:
    vector = default.schedule.mapping.vector
    chunks = default.schedule.domain.cols // vector
    for row in ROW_THREADS:
        items = -(-chunks // row)
        for block in BLOCKS[:3] if row <= chunks and items <= MOST_ITEMS else ():
            for waves in WAVES:
                yield f"*[GRID-THREAD_{waves}-CTA_{block // row},THREAD_{items}-CTA_{row}-THREAD_{vector}];"
