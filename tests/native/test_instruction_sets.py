"""Which sources a library is built from where it is used."""

from __future__ import annotations

import platform

import pytest

from tf_stitch.native import instruction_sets
from tf_stitch.native.build import SOURCE_DIR, STITCH_OP
from tf_stitch.native.instruction_sets import for_this_processor

OTHER = "op/gemm.cc"
BASELINE, AVX2, AVX512 = (f"cpu/host_blocks_{name}.cc" for name in ("baseline", "avx2", "avx512"))
ALL = (OTHER, BASELINE, AVX2, AVX512)
HAS_AVX2 = {"avx", "avx2", "fma", "f16c"}
HAS_AVX512 = HAS_AVX2 | {"avx512f", "avx512dq", "avx512bw", "avx512vl"}


@pytest.mark.parametrize(("machine", "flags", "kept"), [
    ("x86_64", set(), BASELINE), ("x86_64", HAS_AVX2, AVX2), ("x86_64", HAS_AVX2 - {"fma"}, BASELINE),
    ("x86_64", HAS_AVX512, AVX512), ("x86_64", HAS_AVX512 - {"avx512vl"}, AVX2), ("aarch64", HAS_AVX512, BASELINE)])
def test_the_best_that_the_processor_runs_is_kept(machine: str, flags: set[str], kept: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(instruction_sets, "cpu_flags", lambda: frozenset(flags))
    assert for_this_processor(ALL) == (OTHER, kept)


def test_one_unit_alone_reads_eigen_where_the_op_is_built() -> None:
    texts = [(SOURCE_DIR / source).read_text() for source in STITCH_OP.here().sources]
    assert sum("host_blocks_impl.h" in text for text in texts) == 1
    assert len([source for source in STITCH_OP.sources if source in ALL[1:]]) == 3
