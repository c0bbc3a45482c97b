"""Sums that are taken for sums of vectors are such: gcc says so."""

from __future__ import annotations

import bisect
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tf_stitch
from tf_stitch.emit.c_family import has_intrinsic
from tf_stitch.emit.cpu import emit_cpu
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.op_table import OP_TABLE
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, constant, var
from tf_stitch.kernel_ir.vectorised_loops import sum_lanes
from tf_stitch.runtime.host_builder import OPTIONS, compiler, compiler_version

F32, ITEM = DType.F32, Var("item", 4096)
BOOLS = (OpKind.LESS, OpKind.LESS_EQUAL, OpKind.GREATER, OpKind.GREATER_EQUAL, OpKind.EQUAL, OpKind.NOT_EQUAL,
         OpKind.IS_NAN, OpKind.IS_INF, OpKind.IS_FINITE)
LOGICAL = (OpKind.AND, OpKind.OR, OpKind.XOR, OpKind.LOGICAL_NOT)
LOADED = (DType.F32, DType.F64, DType.F16, DType.BF16, DType.I32, DType.I64)


def program(value: k.Expr, dtype: DType, operands: int) -> k.Program:
    """The sum of a value, in a vector loop if it can be."""
    term = value if value.dtype is F32 else k.Apply(OpKind.CAST, (value,), F32)
    body = (k.Accumulator("acc", F32, 0.0), k.For(ITEM, (k.Update("acc", OpKind.SUM, term),), k.Loop.SIMD),
            k.Store("out", constant(0), k.Local("acc", F32)))
    read = (k.Buffer(f"x{i}", dtype, ITEM.extent, k.Mode.READ) for i in range(operands))
    return k.Program((*read, k.Buffer("out", F32, 1, k.Mode.WRITE)), 1, 1, body)


def sums() -> Iterator[tuple[str, k.Program]]:
    for dtype in LOADED:
        for kind, info in OP_TABLE.items():
            if info.category is not Category.ELEMENTWISE or kind in (*LOGICAL, OpKind.SELECT, OpKind.RANDOM_BITS) \
                    or not has_intrinsic(kind, dtype.compute):
                continue
            loads = tuple(k.Load(f"x{i}", var(ITEM), dtype) for i in range(info.arity))
            for to in (F32, DType.F64, DType.I32, DType.BF16) if kind is OpKind.CAST else (None,):
                result = DType.BOOL if kind in BOOLS else DType.I32 if kind is OpKind.BITS else to or dtype
                yield f"{kind.value}_{dtype.value}_{to and to.value}", program(k.Apply(kind, loads, result), dtype,
                                                                               info.arity)


@pytest.mark.skipif("gcc" not in compiler_version().lower() or platform.machine() != "x86_64", reason="no gcc of x86")
def test_gcc_makes_vectors_of_what_is_taken_for_vectors(tmp_path: Path) -> None:
    wanted = {name: made for name, made in sums() if sum_lanes(made.body[1], F32) > 1}  # type: ignore[arg-type]
    assert len(wanted) > 100
    source = emit_cpu([*wanted.items()])
    (tmp_path / "sums.c").write_text(source)
    folders = [f"-I{Path(tf_stitch.__file__).parent / part}" for part in ("emit", "native")]
    flags = [*OPTIONS, "-march=x86-64-v3", "-fno-ipa-icf", "-fopt-info-vec-optimized"]
    done = subprocess.run([str(compiler()), *flags, *folders, "-c", "sums.c", "-o", "sums.o"], cwd=tmp_path,
                          capture_output=True, text=True, check=True)
    starts = [(number, match[1]) for number, line in enumerate(source.splitlines(), 1)
              if (match := re.match(r"static void (\w+)_range\(", line))]
    said = Counter[str]()
    for line in map(int, re.findall(r"^sums\.c:(\d+):\d+: optimized: loop vectorized", done.stderr, re.MULTILINE)):
        said[starts[bisect.bisect([number for number, _ in starts], line) - 1][1]] += 1
    # The lanes are added up by a vector loop in any case.
    assert [name for name in wanted if said[name] < 2] == []


@pytest.mark.parametrize("kind", [OpKind.POW, OpKind.COSH, OpKind.SIN, OpKind.LGAMMA, OpKind.FLOOR_MOD])
def test_functions_of_the_c_library_have_no_vectors(kind: OpKind) -> None:
    of = {made.body[1] for name, made in sums() if name.startswith(f"{kind.value}_")}
    assert {sum_lanes(loop, F32) for loop in of} == {1}  # type: ignore[arg-type]


def test_rows_of_steps_have_none() -> None:
    for index in (var(ITEM) * 2, var(ITEM) // 2, var(ITEM) % 7):
        loop = k.For(ITEM, (k.Update("acc", OpKind.SUM, k.Load("x0", index, F32)),), k.Loop.SIMD)
        assert sum_lanes(loop, F32) == 1
        inner = (k.LetIndex(Var("at", 1 << 20), index, None), k.Update("acc", OpKind.SUM, k.Load(
            "x0", var(Var("at", 1 << 20)), F32)))
        assert sum_lanes(k.For(ITEM, inner, k.Loop.SIMD), F32) == 1
