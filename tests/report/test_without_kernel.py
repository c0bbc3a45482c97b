"""Every reason that a node of a region may have for being in no kernel."""

from __future__ import annotations

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import CPU
from tf_stitch.errors import SourceLoc
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.report.without_kernel import CONSTANT, KNOWN, MERGED, SCALAR, VARIABLE, VIEW, without_kernel


def at(name: str) -> Builder:
    return Builder(SourceLoc(name, "Op"))


def test_every_reason() -> None:
    x = at("x").input("i0", DType.F32, (8, 16))
    rate = at("read").variable("v0", DType.F32, ())
    half = at("half").constant(0.75, DType.F32)
    whole = at("whole").add(half, half)
    scaled = at("scaled").mul(rate, whole)
    flat = at("flat").reshape(x, (128,))
    first, second = at("first").op(OpKind.TANH, flat), at("second").op(OpKind.TANH, flat)
    result = at("result").mul(at("sum").add(first, second), at("spread").broadcast(scaled, (128,)))
    graph = TensorGraph("g", [("o0", result)])
    compiled = compile_region(graph, ("i0",), ("v0",), CompileOptions(CPU))
    in_kernels = {n.loc.node for kernel in compiled.kernels for n in kernel.schedule.pattern.nodes}
    found = without_kernel(graph, compiled.plan.free, in_kernels, {})
    reasons = {name: reason for reason, names in found.items() for name in names}
    assert reasons == {"x": VARIABLE, "read": VARIABLE, "half": CONSTANT, "whole": KNOWN, "scaled": SCALAR,
                       "spread": VIEW, "second": MERGED}
    assert in_kernels == {"flat", "first", "sum", "result"}
