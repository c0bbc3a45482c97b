"""Dense layers that `cpu_matmuls.py` times, and the times of our kernels."""

from __future__ import annotations

from tf_stitch.compiler.program_times import timed_kernels
from tf_stitch.config import load_config
from tf_stitch.device.spec import CPU
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_timer import time_on_host, with_timer
from tf_stitch.runtime.kernel_cache import KernelCache
from tools.calibrate.kernels import program_of

B, F32 = Builder(), DType.F32
SIZES = ((256, 40, 256), (256, 256, 256), (32, 128, 384), (64, 256, 256), (64, 512, 512), (300, 100, 70),
         (1024, 256, 256), (1024, 256, 1024), (128, 768, 768), (512, 512, 512))
"""Rows, terms, columns."""
FORMS = {"": (False, False), "a transposed": (True, False), "b transposed": (False, True)}


def dense(sizes: tuple[int, int, int], form: str) -> Node:
    """relu(a b + bias)."""
    m, k, n = sizes
    transpose_a, transpose_b = FORMS[form]
    a, b = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)
    y = B.add(B.dot(B.input("a", F32, a), B.input("b", F32, b), transpose_a, transpose_b), B.input("bias", F32, (n,)))
    return B.maximum(y, B.scalar_like(0, y))


def kernel_us(rounds: int) -> list[float]:
    """Microseconds of our kernels, with a bias and a relu."""
    programs = [program_of([dense(sizes, form)], CPU) for sizes in SIZES for form in FORMS]
    source, kernels = timed_kernels(programs, CPU)
    library = build_host(with_timer(source), CPU.architecture, KernelCache(load_config().cache_dir / "kernels"))
    turns = [time_on_host(library, kernels) for _ in range(rounds)]
    return [min(times) for times in zip(*turns, strict=True)]
