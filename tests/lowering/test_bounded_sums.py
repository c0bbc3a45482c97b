"""Sums of many terms: no chain of additions is longer than the bound allows, and results are as exact as that says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.differential import patterns as p
from tests.differential.runner import Values, build_cubin, cache, keys_of, region, results_by_key, run_kernel_ir
from tests.differential.sized_patterns import SIZED_PATTERNS
from tf_stitch.compiler.pipeline import CompiledRegion, CompileOptions, compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, in_terms_of, size
from tf_stitch.ir.types import Shape
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.instantiate import instantiate
from tf_stitch.kernel_ir.sum_chains import sum_chains, unbounded_sums
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import rebuilt, statements
from tf_stitch.lowering.bounded_sums import bounded_sums
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_run import HostExecutable

B, F32 = p.B, DType.F32
DEVICES = pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
CHANGING = pytest.mark.parametrize("changing", [False, True], ids=["static", "changing"])


def terms(shape: Shape, function: str, dtype: DType = F32) -> Node:
    """x of inputs x and 1, by a function that has vectors on CPUs, or none."""
    x, one = B.input("x:0", dtype, shape), B.input("one:0", dtype, shape)
    return B.op(OpKind.POW, x, one) if function == "pow" else B.mul(x, one)


def _variance(x: Node) -> Node:
    return B.mean(B.square(B.sub(x, B.mean(x, [1], True))), [1])


FAMILIES: dict[str, Callable[[int, str], list[Node]]] = {
    "all": lambda n, f: [B.sum(terms((n,), f), [0])],
    "rows": lambda n, f: [B.sum(terms((3, n), f), [1])],
    "rows_and_elements": lambda n, f: [x := terms((3, n), f), B.sum(x, [1])],
    "mean": lambda n, f: [B.mean(terms((2, n), f), [1])],
    "columns": lambda n, f: [B.sum(terms((n, 5), f), [0])],
    "columns_and_elements": lambda n, f: [x := terms((n, 8), f), B.sum(x, [0])],
    "norms": lambda n, f: [B.op(OpKind.SQRT, B.sum(B.square(terms((2, n), f)), [1]))],
    "two_axes": lambda n, f: [B.sum(terms((3, n, 4), f), [0, 2]), B.sum(terms((3, n, 4), f), [1])],
    "running": lambda n, f: [B.cumsum(terms((2, n), f), False, False)],
    "running_backwards": lambda n, f: [B.cumsum(terms((2, n), f), True, True)],
    "softmax": lambda n, f: [p.softmax(terms((2, n), f))],
    "variance": lambda n, f: [_variance(terms((2, n), f))],
    "mixed": lambda n, f: [x := B.mul(terms((n, 16), f), B.sum(terms((n, 16), f), [1], True)), B.sum(x, [0])],
    "halves": lambda n, f: [B.cast(B.sum(B.cast(terms((2, n), f, DType.F16), F32), [1]), F32)],
    "doubles": lambda n, f: [B.sum(terms((2, n), f, DType.F64), [1])],
}
EXACT = ("all", "rows", "rows_and_elements", "mean", "columns", "columns_and_elements", "norms", "two_axes", "running",
         "running_backwards", "mixed")
"""Families whose results are sums of terms of one sign, or products with such."""


def graph_of(family: str, n: int, function: str) -> TensorGraph:
    return region(family, FAMILIES[family](n, function))


def compiled(family: str, n: int, function: str, changing: bool, device: DeviceSpec) -> CompiledRegion:
    graph = graph_of(family, size("n", n) if changing else n, function)
    return compile_region(graph, *keys_of(graph), CompileOptions(device, plans=PlanMemory() if changing else None))


@CHANGING
@pytest.mark.parametrize(("device", "function"), [(CPU, "mul"), (CPU, "pow"), (H200, "mul")], ids=[
    "cpu-mul", "cpu-pow", "cuda"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_chain_of_a_family_is_too_long(family: str, function: str, changing: bool, device: DeviceSpec) -> None:
    """At sizes up to 10^8 terms, of kernels made for one size or for all."""
    for n in (1000, 1_000_003) if changing else (1000, 40_000, 1_000_003, 100_000_000 // 64):
        for kernel in compiled(family, n, function, changing, device).kernels:
            if not kernel.program.looped:
                verify_program(kernel.program)
            assert unbounded_sums(kernel.program) == set()
            for other in (3, 108, 109, 5000, 70_000, 10_000_000, 100_000_000) if changing else ():
                program = instantiate_for(kernel.program, other)
                assert unbounded_sums(program) == set(), sum_chains(program)


def instantiate_for(program: k.Program, n: int) -> k.Program:
    """A program of a size n, which changes, for another."""
    return rebuilt(program, lambda _, x: int(in_terms_of(x, {"n": n})) if isinstance(x, SymbolicDim) else x)


@DEVICES
@pytest.mark.parametrize("name", SIZED_PATTERNS)
def test_no_chain_of_a_model_s_pattern_is_too_long(name: str, device: DeviceSpec) -> None:
    graph = region(name, SIZED_PATTERNS[name](size("b", 8), size("n", 64)))
    made = compile_region(graph, *keys_of(graph), CompileOptions(device, plans=PlanMemory()))
    assert [unbounded_sums(kernel.program) for kernel in made.kernels] == [set()] * len(made.kernels)


def swamped(shape: tuple[int, ...], dtype: DType) -> NDArray[np.float64]:
    """Terms of one sign, the worst for a sum that adds one after the other: a large one first, and others each of which
    is lost beside it."""
    unit = {DType.F16: 2.0 ** -13, DType.F32: 2.0 ** -25, DType.F64: 2.0 ** -54}[dtype]
    x = np.full(shape, unit)
    x[(0,) * len(shape)] = x[(-1,) * len(shape)] = 1
    return x


def run(made: CompiledRegion, graph: TensorGraph, values: Values) -> Values:
    library = build_host(made.source, "native", cache())
    return results_by_key(graph, *HostExecutable(made.executable, library).run(values, {}))


def inputs(graph: TensorGraph) -> Values:
    found = {n.attrs.key: n.type for n in graph.nodes() if n.kind is OpKind.INPUT}  # type: ignore[union-attr]
    return {key: (swamped(t.shape, t.dtype) if key == "x:0" else np.ones(t.shape)).astype(t.dtype.numpy)
            for key, t in found.items()}


def right(family: str, x: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    return {"all": lambda: [x.sum()], "rows": lambda: [x.sum(1)], "rows_and_elements": lambda: [x, x.sum(1)],
            "mean": lambda: [x.mean(1)], "columns": lambda: [x.sum(0)], "columns_and_elements": lambda: [x, x.sum(0)],
            "norms": lambda: [np.sqrt((x * x).sum(1))], "two_axes": lambda: [x.sum((0, 2)), x.sum(1)],
            "running": lambda: [np.cumsum(x, 1)],
            "running_backwards": lambda: [np.cumsum(x[:, ::-1], 1)[:, ::-1] - x],
            "mixed": lambda: [y := x * x.sum(1, keepdims=True), y.sum(0)]}[family]()  # fmt: skip


def allowed(n: int) -> float:
    """Of itself, what a float32 sum of n terms of one sign may be off by; as much for the few roundings beside it."""
    return 8 * float(np.finfo(np.float32).eps) * math.log2(n) + 4e-7


@CHANGING
@pytest.mark.parametrize(("family", "function"), [*((family, "mul") for family in EXACT), *(
    (family, "pow") for family in ("all", "rows_and_elements", "columns", "running", "mixed"))])
def test_sums_are_as_exact_as_pairwise_ones(family: str, function: str, changing: bool) -> None:
    n = 30_011
    graph = graph_of(family, n, function)
    values = inputs(graph)
    got = run(compiled(family, n, function, changing, CPU), graph, values)
    for found, want in zip(got.values(), right(family, values["x:0"].astype("f8")), strict=True):
        np.testing.assert_allclose(found, want, rtol=allowed(n), atol=1e-300)


@CHANGING
def test_ten_million_terms(changing: bool) -> None:
    n = 10_000_000
    graph = graph_of("all", n, "mul")
    values = inputs(graph)
    [found] = run(compiled("all", n, "mul", changing, CPU), graph, values).values()
    assert abs(found - values["x:0"].sum(dtype="f8")) <= allowed(n) * found


@DEVICES
@pytest.mark.parametrize("family", ["rows", "columns", "columns_and_elements", "mixed", "running", "softmax"])
def test_split_kernels_compute_the_same(family: str, device: DeviceSpec) -> None:
    """In the interpreter, which sees what is out of bounds, or read before it is written."""
    n = 230
    graph = graph_of(family, n, "pow")
    rng = np.random.default_rng(0)
    values = {key: rng.random(x.shape).astype(x.dtype) if key == "x:0" else x for key, x in inputs(graph).items()}
    x = values["x:0"].astype("f8")
    want = [np.exp(x) / np.exp(x).sum(1, keepdims=True)] if family == "softmax" else right(family, x)
    made = compiled(family, n, "pow", True, device)
    numbers = {symbol: tuple(map(instantiate, programs)) for symbol, programs in made.programs.items()}
    made = replace(made, programs=numbers)
    got = run_kernel_ir(graph, made, values)
    for found, expected in zip(got.values(), want, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("family", ["columns_and_elements", "running", "mixed"])
def test_cuda_of_split_kernels_builds(family: str) -> None:
    made = compiled(family, 1000, "pow", True, H200)
    assert "_level2" in made.source
    build_cubin(made)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 1500, 2999])
def test_a_maximum_beside_a_sum_keeps_nan(bad: float, at: int) -> None:
    """Vectors of both end with each part of the row."""
    x = B.input("x:0", F32, (3000,))
    graph = region("both", [B.sum(x, [0]), B.reduce(OpKind.MAX, x, [0]), B.reduce(OpKind.MIN, x, [0])])
    data = np.ones(3000, "f")
    data[at] = bad
    with np.errstate(invalid="ignore"):
        want = [data.sum(), data.max(), data.min()]
    made = compile_region(graph, *keys_of(graph), CompileOptions(CPU))
    got = run(made, graph, {"x:0": data})
    np.testing.assert_array_equal(np.array([*got.values()]), want)


def test_a_kernel_that_meets_the_bound_stays_as_it_is() -> None:
    for graph in (region("softmax", [p.softmax(B.input("x:0", F32, (64, 1000)))]), graph_of("rows", 1024, "mul")):
        for kernel in compile_region(graph, *keys_of(graph), CompileOptions(CPU)).kernels:
            assert bounded_sums(kernel.program) is kernel.program
            assert not any(isinstance(s, k.Accumulator) and "part" in s.name for s in kernel.program.body)


def test_what_is_split_stays_as_it_is() -> None:
    for kernel in compiled("rows", 1000, "pow", True, CPU).kernels:
        assert bounded_sums(kernel.program) is kernel.program


def test_parts_are_numbered_in_the_order_of_the_additions() -> None:
    """A kernel that differed from process to process would be found in no cache."""
    x = terms((1 << 14, 8), "mul")
    powers = [x]
    for _ in range(7):
        powers.append(B.mul(powers[-1], x))
    graph = region("sums", [B.sum(power, [0]) for power in powers])
    kernels = compile_region(graph, *keys_of(graph), CompileOptions(CPU)).kernels
    of_kernels = [list(dict.fromkeys(s.array for s in statements(kernel.program.body)
                                     if isinstance(s, k.SetElement) and "_part" in s.array)) for kernel in kernels]
    parts = max(of_kernels, key=len)
    assert len(parts) >= 8
    assert parts == sorted(parts, key=lambda name: int(name.rpartition("_part")[2]))
