"""A statement about tiles that is defined here alone is verified, counted, run, printed and emitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tf_stitch.emit.c_family import Lines
from tf_stitch.emit.cuda_kernel import CudaKernel
from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.count_work import count_work
from tf_stitch.kernel_ir.index import Var, var
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.rename import renamed
from tf_stitch.kernel_ir.scope import Scope, require
from tf_stitch.kernel_ir.statement import Body, Reads, Writes
from tf_stitch.kernel_ir.text_format import format_program
from tf_stitch.kernel_ir.tile_statement import Block, TileBlock, TileStatement, TileVerifier
from tf_stitch.kernel_ir.tile_work import TileWork
from tf_stitch.kernel_ir.verifier import verify_program

F32 = DType.F32


@dataclass(frozen=True)
class Sum(TileStatement):
    """target[block] = the sum of what `body` makes of the elements of a row of source, each in a scalar `x`."""

    source: Reads
    target: Writes
    columns: int
    column: Var
    body: Body

    def verify(self, verifier: TileVerifier, scope: Scope) -> None:
        require(verifier.threads % 32 == 0, "part of a warp")
        inner = scope.inner([self.column])
        inner.scalars["x"] = True
        verifier.body(self.body, inner, parted=True)

    def count(self, counter: TileWork, times: float) -> None:
        counter.vectors(self.source, times * self.columns, False)
        counter.op(F32, OpKind.ADD, times * self.columns / counter.threads, None)

    def interpret(self, block: TileBlock) -> None:
        first = block.block * self.columns
        total = 0.0
        for i, x in enumerate(block.load_all(self.source, range(first, first + self.columns))):
            block.indices[0][self.column.name], block.scalars[0]["x"] = i, x
            block.run_body(self.body, [0])
            total += block.scalars[0]["x"]
        block.store_all(self.target, [block.block], [total])

    def lines(self, block: Block) -> Iterator[str]:
        yield f"{self.target} = sums of {self.columns} of {self.source}:"
        yield from block(self.body, "  ")


@CudaKernel.rules(Sum)
def _sum(kernel: CudaKernel, stmt: Sum) -> Lines:
    yield from kernel.closure("element", ["float& x"], [stmt.column], stmt.body)
    yield f"sum_rows<{stmt.columns}>({stmt.source}, {stmt.target}, element);"


STMT = Sum("source", "target", 3, Var("c", 3), (k.Assign("x", k.Apply(OpKind.NEG, (k.Local("x", F32),), F32)),))
PROGRAM = k.Program((k.Buffer("source", F32, 6, k.Mode.READ), k.Buffer("target", F32, 2, k.Mode.WRITE)), 2, 32, (STMT,))


def test_it_is_verified() -> None:
    verify_program(PROGRAM)
    with pytest.raises(VerifyError, match="part of a warp"):
        verify_program(replace(PROGRAM, threads=16))


def test_what_its_fields_name_is_verified_by_their_roles() -> None:
    with pytest.raises(VerifyError, match="buffer elsewhere is not declared"):
        verify_program(replace(PROGRAM, body=(replace(STMT, source="elsewhere"),)))


def test_it_stands_where_threads_are_together() -> None:
    inside = k.If(k.InRange(var(PROGRAM.block), 0, 1), (STMT,))
    with pytest.raises(VerifyError, match="Sum where threads part"):
        verify_program(replace(PROGRAM, body=(inside,)))


def test_its_work_is_counted() -> None:
    work = count_work(PROGRAM)
    assert [(access.buffer, access.count) for access in work.accesses] == [("source", 3 / 32)]
    assert work.scalar == {(F32, OpKind.ADD): 3 / 32}


def test_it_is_run() -> None:
    buffers = {"source": np.arange(6, dtype=np.float32), "target": np.zeros(2, np.float32)}
    interpret_program(PROGRAM, buffers)
    assert buffers["target"].tolist() == [-3.0, -12.0]


def test_it_is_printed() -> None:
    assert format_program(PROGRAM).splitlines()[3:] == ["  target = sums of 3 of source:", "    x = neg(x)"]


def test_its_buffers_are_renamed() -> None:
    assert renamed(STMT, {"source": "a", "target": "b"}, {}) == replace(STMT, source="a", target="b")


def test_it_is_emitted() -> None:
    lines = [line.strip() for line in CudaKernel(PROGRAM).function("f")]
    assert lines[lines.index("x = -x;"):][1:3] == ["};", "sum_rows<3>(source, target, element);"]
