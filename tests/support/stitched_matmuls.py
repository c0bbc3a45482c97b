"""Graphs around a matmul, compiled with the matmul in a kernel of ours whatever that is predicted to take."""

from __future__ import annotations

from tests.differential import patterns as p
from tests.differential.runner import keys_of
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.config import ForcedTemplate
from tf_stitch.device.spec import H200, DeviceSpec
from tf_stitch.errors import SourceLoc
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.planning.matmul_choice import Stitching
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.templates import parse_template

B = Builder(SourceLoc("matmul", "MatMul"))
"""Its nodes have a name, by which a template is forced on them."""


def x(name: str, dtype: DType, *shape: int) -> Node:
    return B.input(name, dtype, shape)


def silu(v: Node) -> Node:
    return B.mul(v, B.op(OpKind.SIGMOID, v))


def row(v: Node, like: Node) -> Node:
    """A vector for every row of another."""
    return B.broadcast(v, like.type.shape)


def scaled_gelu(dtype: DType, m: int = 70, k: int = 96, n: int = 72) -> list[Node]:
    """gelu(layer_scaled(x) w + b) * y."""
    a = x("x", dtype, m, k)
    product = B.dot(B.mul(a, row(x("g", dtype, k), a)), x("w", dtype, k, n))
    biased = B.add(product, row(x("b", dtype, n), product))
    return [B.mul(p.gelu_tanh(biased), x("y", dtype, m, n))]


def swiglu(dtype: DType, m: int = 66, k: int = 64, n: int = 88) -> list[Node]:
    """silu(x v) * (x w), one of the matmuls a library call."""
    a = x("x", dtype, m, k)
    return [B.mul(silu(B.dot(a, x("v", dtype, k, n))), B.dot(a, x("w", dtype, k, n)))]


def compiled_stitched(graph: TensorGraph, device: DeviceSpec = H200, template: str = "", aligned: bool = True
                      ) -> CompiledRegion:
    forced = (ForcedTemplate("*", parse_template(template)),) if template else ()
    options = CompileOptions(device, PlanOptions(matmuls=Stitching.ALL), aligned,
                             templates=TemplateChoice(device, aligned, forced))
    result = compile_region(graph, *keys_of(graph), options)
    for kernel in result.kernels:
        verify_program(kernel.program)
    return result
