"""Kernels worked out for other sizes are those that the region compiled for these sizes has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region, planned_kernels
from tf_stitch.compiler.shape_variants import OtherSizes
from tf_stitch.compiler.symbolic_plans import Decisions
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.dynamic_dims import atom_values, bind_changing
from tf_stitch.ir.graph import TensorGraph, key_of
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Symbol, static_shape, substitute
from tf_stitch.libraries.cudnn import Convolution
from tf_stitch.planning.plan_memory import PlanMemory

B = p.B
NAMES = ("b", "n")
WIDTH = 64


def layer() -> TensorGraph:
    """Rows of a changing length, rows and columns of a fixed one, small kernels of one launch, a matmul between."""
    x, scores = B.input("x", DType.F32, (Symbol("b"), Symbol("n"), WIDTH)), B.input("s", DType.F32,
                                                                                   (Symbol("b"), 4, Symbol("n")))
    weights, gamma, beta = (B.input(k, DType.F32, (WIDTH,)) for k in "wgc")
    matrix = B.input("m", DType.F32, (Symbol("b"), WIDTH, WIDTH))
    inner = B.dot(p.gelu_erf(p.layernorm(x, gamma, beta)), matrix)
    outputs = [p.softmax(scores), B.mul(B.exp(x), weights), B.sum(B.mul(inner, x), [0, 1]), B.add(inner, x),
               B.sum(B.exp(x), [0, 1, 2])]
    return TensorGraph("layer", [(f"o{i}", node) for i, node in enumerate(outputs)])


def shapes(graph: TensorGraph, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    return {key_of(n): static_shape(substitute(n.type.shape, dict(sizes))) for n in graph.inputs()}


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
def test_kernels_are_those_of_the_region_compiled_for_other_sizes(device: DeviceSpec) -> None:
    graph, multiple = layer(), 4 if device.simt else 1
    inputs = tuple(key_of(n) for n in graph.inputs())
    options = CompileOptions(device, plans=PlanMemory())

    def bound(sizes: Mapping[str, int], multiple: int) -> TensorGraph:
        return bind_changing(graph, shapes(graph, sizes), NAMES, multiple)

    decisions = Decisions(bound({"b": 8, "n": 24}, 1), options, multiple)
    known: dict[object, OtherSizes] = {}
    kernels: dict[object, set[str]] = {}
    lengths = (24, 1, 7, 8, 15, 16, 33, 64, 127, 128, 500, 511, 1000, 1024, 3000)
    for n, b in [(n, b) for b in (8, 7, 2) for n in lengths]:
        sizes = {"b": b, "n": n}
        alike = decisions.at(sizes)
        if alike not in known:
            known[alike] = OtherSizes(planned_kernels(bound(sizes, multiple), inputs, (), options).buffers, options)
        rendered = known[alike].rendered(atom_values(sizes, multiple))
        wanted = compile_region(bound(sizes, multiple), inputs, (), options).rendered
        assert rendered.keys() == wanted.keys(), sizes
        assert all(rendered[symbol].parts.keys() == kernel.parts.keys() for symbol, kernel in wanted.items())
        kernels.setdefault(alike, set()).update(wanted)
    assert len(known) < 3 * len(lengths), "some sizes are alike"
    if device.simt:
        assert max(map(len, kernels.values())) > len(wanted), "which need different kernels all the same"


def test_convolutions_of_other_batches() -> None:
    """Channels first, as TensorFlow trains float32: forward, both gradients, and filters of 1 x 1."""
    x, grad = (B.input(k, DType.F32, (Symbol("b"), c, 12, 12)) for k, c in (("x", 8), ("g", 32)))
    filters, single = B.input("w", DType.F32, (3, 3, 8, 32)), B.input("v", DType.F32, (1, 1, 32, 24))
    attrs = ConvolutionAttrs((1, 1), (1, 1), (1, 1), 1)
    last, first, ours = (0, 2, 3, 1), (0, 3, 1, 2), (3, 0, 1, 2)
    y = B.convolution(OpKind.CONVOLUTION, B.transpose(x, last), B.transpose(filters, ours), attrs)
    y = B.maximum(B.transpose(y, first), B.constant(0, DType.F32))
    z = B.convolution(OpKind.CONVOLUTION, B.transpose(y, last), B.transpose(single, ours),
                      replace(attrs, padding=(0, 0)))
    dx = B.convolution(OpKind.CONVOLUTION_INPUT_GRAD, B.transpose(B.mul(grad, y), last), B.transpose(filters, ours),
                       replace(attrs, size=(12, 12)))
    dw = B.convolution(OpKind.CONVOLUTION_FILTER_GRAD, B.transpose(x, last), B.transpose(grad, last),
                       replace(attrs, size=(3, 3)))
    graph = TensorGraph("convolutions", [("z", B.exp(B.transpose(z, first))), ("dx", B.transpose(dx, first)),
                                         ("dw", B.transpose(dw, (1, 2, 3, 0)))])
    inputs, options = tuple(key_of(n) for n in graph.inputs()), CompileOptions(H200, plans=PlanMemory())
    for b in (32, 5, 1):
        bound = bind_changing(graph, shapes(graph, {"b": b}), ["b"], 4)
        calls = compile_region(bound, inputs, (), options).calls
        assert sorted(str(c.call.at_hand()).split()[0] for c in calls) == ["convolution"] * 3 + ["gemm"], b
        assert {c.call.at_hand().sizes.n for c in calls if isinstance(c.call, Convolution)} == {b}


def test_what_passes_decide_by_numbers() -> None:
    total, rows = B.sum(B.input("x", DType.F32, (Symbol("n"), WIDTH)), [0]), B.exp(B.input("y", DType.F32,
                                                                                        (3, Symbol("n"))))
    graph = TensorGraph("columns", [("o", total), ("p", rows)])
    decisions = Decisions(bind_changing(graph, shapes(graph, {"n": 24}), ["n"]), CompileOptions(H200), 4)
    assert decisions.at({"n": 24}) == decisions.at({"n": 28})
    for other in (23, 1, 1 << 16):
        assert decisions.at({"n": 24}) != decisions.at({"n": other})


def test_a_launch_depends_on_one_size() -> None:
    """Or there would be one for every two classes of lengths."""
    x, y = (B.input(key, DType.F32, (WIDTH, Symbol(key))) for key in "bn")
    graph = TensorGraph("two", [("o", p.softmax(x)), ("p", B.sum(B.square(y), [1]))])
    inputs, options = tuple(key_of(n) for n in graph.inputs()), CompileOptions(H200, plans=PlanMemory())
    found: set[str] = set()
    lengths = (7, 30, 70, 200)  # a kernel each, of as many threads
    for b, n in [(b, n) for b in lengths for n in lengths]:
        bound = bind_changing(graph, shapes(graph, {"b": b, "n": n}), NAMES, 1)
        found |= compile_region(bound, inputs, (), options).rendered.keys()
    assert len(found) == 2 * len(lengths)
