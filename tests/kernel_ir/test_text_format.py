"""Kernels as text: goldens of well-known ones, and every kind of statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compiled, region
from tests.support.statement_kinds import KINDS
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.causal_masks import CausalMask
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import AttentionShape, AttentionTiling, Rows
from tf_stitch.kernel_ir.attention_gradient import GradientShape, GradientTiling
from tf_stitch.kernel_ir.index import Var, constant, var
from tf_stitch.kernel_ir.matmul import MatmulOperand, MatmulShape, MatmulTiling, Place
from tf_stitch.kernel_ir.text_format import format_expr, format_program

B, F32 = p.B, DType.F32
I = Var("i", 4)  # noqa: E741
ONE = k.Literal(1.0, F32)


def softmax() -> TensorGraph:
    return region("softmax", [p.softmax(B.input("x:0", F32, (512, 100)))])


def bias_gradient() -> TensorGraph:
    return region("bias_gradient", [B.reduce(OpKind.SUM, B.input("dy:0", F32, (512, 64)), (0,))])


@pytest.mark.parametrize(("graph", "device"), [(softmax, CPU), (softmax, H200), (bias_gradient, CPU)],
                         ids=lambda v: getattr(v, "target", None) or v.__name__)
def test_kernels(graph: Callable[[], TensorGraph], device: DeviceSpec, golden: Callable[[str, str], None]) -> None:
    texts = [format_program(replace(one.program, cost=0)) for one in compiled(graph(), device).kernels]
    golden(f"kernel_{graph.__name__}_{device.target}", "\n".join(texts))


ROWS = Rows(64, 32, 8)
ATTENTION = k.Attention(AttentionShape(F32, 1, 2, 4, 4, 8, 8, ROWS, ROWS, ROWS, ROWS), AttentionTiling(1, 2, 16, 32),
                        "q", "k", "v", "out", "tiles", Var("a", 1), Var("b", 2), Var("c", 4), Var("d", 4), "s",
                        (k.Assign("s", ONE),), keep=(k.Assign("x", k.Local("most", F32)),),
                        weigh=(k.Assign("weight", ONE),))
AT = (Var("a", 1), Var("b", 2), Var("c", 4), Var("d", 4))
GRADIENT = GradientShape(F32, 1, 2, 4, 4, 8, 8, ROWS, ROWS, ROWS, ROWS, ROWS)
BY_QUERIES = k.AttentionQueryGradient(
    GRADIENT, GradientTiling(4, 32, True, 32), "q", "do", "k", "v", "dq", "tiles", *AT, "s", "g",
    (k.Assign("g", ONE),), "most", (), "r",
    (k.Assign("g", k.Local("s", F32)),), (k.Assign("x", k.Local("r", F32)),))
BY_KEYS = k.AttentionKeyGradient(
    replace(GRADIENT, result_2=ROWS), GradientTiling(4, 32, True, 32), "k", "v", "q", "do", "dk", "tiles", *AT,
    "s", "g",
    (k.Assign("g", ONE),), "most", (), "dv")
CAUSAL = replace(BY_QUERIES, shape=replace(GRADIENT, causal=CausalMask(2, -1e9)), most="m",
                 find_most=(k.Assign("m", ONE),))
PLACE = Var("a", 1), Var("b", 8), Var("c", 2)
MATMUL = k.Matmul(MatmulShape(DType.BF16, 1, 8, 8, 16, MatmulOperand(True, 8, Place(0, 0, 16)), MatmulOperand(True, 8),
                              4),
                  MatmulTiling(32, 64, 16, 1, 1, 4, 32), "x", "", "tiles", "v", PLACE, (),
                  (Var("p", 1), Var("q", 8), Var("r", 2)), (k.SetElement("v", constant(0), ONE),), "c", PLACE,
                  (k.SetElement("c", constant(0), ONE),))
BY_A_CLUSTER = k.Matmul(MatmulShape(DType.BF16, 1, 8, 8, 16, MatmulOperand(True, 8, Place(0, 0, 16)),
                                    MatmulOperand(True, 8, Place(0, 0, 16)), 4),
                        MatmulTiling(16, 64, 16, 1, 1, 4, 32, parts=8, sharers=2), "x", "y", "tiles", "v",
                        PLACE, (), PLACE, (), "c", PLACE, (k.SetElement("c", constant(0), ONE),), ahead=True)
STATEMENTS: list[tuple[k.Stmt, list[str]]] = [
    (k.Let("a", k.Load("x", var(I) + 1, F32)), ["let a: float32 = x[i + 1]"]),
    (k.LetIndex(Var("row", 8), k.Load("x", var(I), DType.I32), 7), ["let row: index = clamp(x[i], 0, 7)"]),
    (k.LetIndex(Var("row", 8), var(I), 7), ["let row: index = clamp(i, 0, 7)"]),
    (k.Accumulator("s", F32, 0.0), ["var s: float32 = 0.0"]),
    (k.Update("s", OpKind.SUM, k.Local("a", F32)), ["s = sum(s, a)"]),
    (k.Assign("s", ONE), ["s = 1:float32"]),
    (k.ArgUpdate("b", "at", OpKind.ARGMAX, ONE, var(I)), ["(b, at) = argmax((b, at), (1:float32, i))"]),
    (k.Array("t", F32, 4, k.Space.SHARED, 0.0), ["shared t: float32[4] = 0.0"]),
    (k.SetElement("t", var(I), ONE), ["t[i] = 1:float32"]),
    (k.SetElement("t", var(I), ONE, OpKind.SUM), ["t[i] = sum(t[i], 1:float32)"]),
    (k.SetElement("t", var(I), k.Apply(OpKind.MUL, (ONE, ONE), F32), OpKind.SUM, fused=True),
     ["t[i] = fused_sum(t[i], (1:float32 * 1:float32))"]),
    (k.Accumulate("b", var(I), ONE, Combine.SUM), ["b[i] = sum(b[i], 1:float32)"]),
    (k.Store("y", var(I), k.Element("t", var(I), F32)), ["y[i] = t[i]"]),
    (k.LoadVector("t", constant(0), "x", var(I) * 4, 4), ["t[0:+4] = x[i*4:+4]"]),
    (k.LoadFence(("s", "t")), ["load_fence s, t"]),
    (k.StoreVector("y", var(I) * 4, "t", 4), ["y[i*4:+4] = t[0:+4]"]),
    (k.For(I, (k.Assign("s", ONE),), k.Loop.UNROLL, constant(3)),
     ["for i in 0..3 unroll while i < 3:", "  s = 1:float32"]),
    (k.If(k.InRange(var(I), 1, 3), (k.Barrier(),), (k.Assign("s", ONE),)),
     ["if (1 <= i < 3):", "  barrier", "else:", "  s = 1:float32"]),
    (k.AllReduce((("s", OpKind.SUM), ("m", OpKind.MAX)), 32), ["all_reduce over 32 threads: sum s, max m"]),
    (k.ArgAllReduce("b", "at", OpKind.ARGMIN, 32, F32), ["all_reduce over 32 threads: argmin (b, at)"]),
    (k.Barrier(), ["barrier"]),
    (k.Array("t", F32, 4, k.Space.SHARED, carried=True), ["shared t: float32[4] carried"]),
    (k.AsyncCopy("t", constant(0), "x", var(I) * 4, 4), ["async_copy t[0:+4] = x[i*4:+4]"]),
    (k.AsyncCopy("t", constant(0), "x", var(I) * 4, 4, k.InRange(var(I), 1, 3)),
     ["async_copy t[0:+4] = x[i*4:+4] if (1 <= i < 3)"]),
    (k.AwaitAsyncCopies(2), ["await all copies but 2"]),
    (k.AwaitDependencies(), ["await dependencies"]),
    (k.Prefetch("x", var(I) * 4, 8), ["prefetch x[i*4:+8]"]),
    (k.Fail(k.Literal(True, DType.BOOL)), ["fail unless true:bool"]),
    (k.Comment("two\nlines"), ["// two lines"]),
    (k.GridLoop(3, (k.Barrier(),)), ["for block in 0..2 over the grid:", "  barrier"]),
    (k.GridLoop(3, (k.Barrier(),), backwards=True), ["for block in 2..0 over the grid:", "  barrier"]),
    (k.GridLoop(4, (k.GroupBarrier(),), group=2),
     ["for block in 0..3 over the grid, 2 blocks together:", "  group barrier"]),
    (ATTENTION, ["out = attention 4x4x8x8 of q, k, v by 1x2 warps of 16 keys:", "  s at a, b, c, d:",
                 "    s = 1:float32", "  weight:", "    weight = 1:float32",
                 "  most, total of each query:", "    x = most"]),
    (BY_QUERIES, ["dq = attention gradient 4x4x8x8 by queries of q, do, k, v by 4 warps of 32 columns, at a, b, c, d:",
                  "  r is the sum over keys of g:", "    g = s", "  r of each query:", "    x = r",
                  "  g:", "    g = 1:float32"]),
    (CAUSAL, ["dq = attention gradient 4x4x8x8 by queries of q, do, k, v by 4 warps of 32 columns, at a, b, c, d:",
              "  0 of keys above their query + 2 if -1e+09 is far below m of the query:", "    m = 1:float32",
              "  r is the sum over keys of g:", "    g = s", "  r of each query:", "    x = r",
              "  g:", "    g = 1:float32"]),
    (BY_KEYS, ["dk, dv = attention gradient 4x4x8x8 by keys of k, v, q, do by 4 warps of 32 columns, at a, b, c, d:",
               "  s, g:", "    g = 1:float32"]),
    (MATMUL, ["matmul 1x8x16x8 bfloat16 by 1x1 warps, tiles 32x64, 4 stages of 16 words:", "  a = x by rows",
              "  b = v by columns, 8 at p, q, r:", "    v[0] = 1:float32", "  c, 4 at a, b, c:",
              "    c[0] = 1:float32"]),
    (BY_A_CLUSTER, ["matmul 1x8x16x8 bfloat16 by 2 blocks of 8 times 1x1 warps, tiles 16x64, 4 stages of 16 words:",
                    "  a = x by rows", "  b = y by columns, prefetched", "  c, 4 at a, b, c:", "    c[0] = 1:float32"]),
    (k.TileProduct("r", 32, 16, 20, 40, "x", "", var(I) * 640, 40, 1, "", "p", constant(0), 32, var(I) + 1),
     ["r[min(16, i + 1) x 20, rows of 32] = x[i*640 + row*40 + term*1] p[0 + term*32 + column], 40 terms"]),
    (k.MatmulPrefetch(BY_A_CLUSTER.shape, BY_A_CLUSTER.tiling, "y", "tiles"), ["prefetch stages of y"]),
    (k.ThreadRange(64, 32, 3, (k.Barrier(k.BlockBarrier(2, 32)),)),
     ["threads 64..95 of blocks 0..2:", "  barrier at 2 of 32"]),
    (k.GridBarrier(), ["grid barrier"]),
    (k.GroupBarrier(), ["group barrier"]),
    (k.Send("t", constant(2), ONE, var(I)), ["t[2] of block i of the cluster = 1:float32"]),
    (k.ClusterStarted(), ["cluster started"]),
    (k.ClusterBarrier(), ["cluster barrier"]),
]


def test_every_statement() -> None:
    assert {type(stmt) for stmt, _ in STATEMENTS} == set(KINDS)
    text = format_program(k.Program((), 2, 1, tuple(stmt for stmt, _ in STATEMENTS)))
    assert text.splitlines()[1:] == ["  " + line for _, lines in STATEMENTS for line in lines]


@pytest.mark.parametrize("value", [-1e9, float("-inf")])
def test_scores_that_are_known(value: float) -> None:
    known = replace(ATTENTION, shape=replace(ATTENTION.shape, causal=CausalMask(-1, value)))
    plain, told = (format_program(k.Program((), 2, 1, (stmt,))).splitlines() for stmt in (ATTENTION, known))
    assert told == [*plain[:2], f"    keys above their query + -1 score {value:g}", *plain[2:]]


def test_expressions() -> None:
    a, i = k.Local("a", F32), k.FromIndex(var(I), DType.I64)
    assert format_expr(k.Apply(OpKind.ADD, (a, k.Apply(OpKind.EXP, (a,), F32)), F32)) == "(a + exp(a))"
    assert format_expr(k.Apply(OpKind.CAST, (i,), F32)) == "float32(int64(i))"
    assert format_expr(k.Apply(OpKind.SELECT, (k.Literal(False, DType.BOOL), a, ONE), F32)) == \
        "select(false:bool, a, 1:float32)"


def test_constants_are_cut_short() -> None:
    table = k.Buffer("t", F32, 100, k.Mode.READ, tuple(map(float, range(100))))
    assert "  read t: float32[100] = [0, 1, 2, 3, 4, 5, 6, 7, ...]\n" in format_program(k.Program((table,), 1, 1, ()))


def test_a_size_that_changes_is_told_by_its_name() -> None:
    assert format_expr(k.Literal(size("n", 20, 4) * 2, DType.I32)) == "n/4*8:int32"
