"""Sources that are compiled for instructions that not every processor has.

Each takes a fifth as long as all others together, for it reads Eigen. A library that is built where it is used has the
one for the processor there; a portable one has all, and the processor at hand decides (native/cpu/host_gemm.cc).
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from tf_stitch.runtime.cpu_flags import cpu_flags

_AVX2 = ("-mavx2", "-mfma", "-mf16c")
# Eigen's own kernels for AVX-512 take four times as long to compile as its general ones. Those are as fast: measured
# within 5% on blocks of 64 x 64 to 64 x 1024, and 1.35 times as fast on 17 x 33 (2026-11, Zen 4).
_GENERAL_KERNELS = ("-DEIGEN_USE_AVX512_GEMM_KERNELS=0", "-DEIGEN_USE_AVX512_TRSM_KERNELS=0")


@dataclass(frozen=True)
class InstructionSet:
    """
    Attributes:
        source: path below SOURCE_DIR.
        needs: what the processor must have, as host_gemm.cc asks for it and as the compiler uses it.
        flags: of the compiler, where processors are x86.
    """

    source: str
    needs: frozenset[str]
    flags: tuple[str, ...]


_BASELINE = InstructionSet("cpu/host_blocks_baseline.cc", frozenset(), ())
_NEEDS_AVX2 = frozenset({"avx2", "fma", "f16c"})
_BEST_FIRST = (
    InstructionSet("cpu/host_blocks_avx512.cc", _NEEDS_AVX2 | {"avx512f", "avx512dq", "avx512bw", "avx512vl"},
                   (*_AVX2, "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", *_GENERAL_KERNELS)),
    InstructionSet("cpu/host_blocks_avx2.cc", _NEEDS_AVX2, _AVX2),
    _BASELINE,
)


def special_flags(source: str) -> tuple[str, ...]:
    """What the compiler is told of one source alone."""
    if platform.machine() != "x86_64":
        return ()
    return next((one.flags for one in _BEST_FIRST if one.source == source), ())


def for_this_processor(sources: tuple[str, ...]) -> tuple[str, ...]:
    """Without those that another processor would run."""
    has = cpu_flags() if platform.machine() == "x86_64" else frozenset()
    best = next(one for one in _BEST_FIRST if one.needs <= has)
    others = {one.source for one in _BEST_FIRST if one is not best}
    return tuple(source for source in sources if source not in others)
