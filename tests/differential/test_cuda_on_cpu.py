"""The CUDA source of every kind of kernel, run on this machine: whichever thread is ahead, the results are right.

What a kernel needs of barriers shows in these tests and nowhere else without a GPU; `test_broken_cuda` takes them away.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.compiler.test_packing import layers
from tests.differential import patterns as p
from tests.differential.generator import make_case
from tests.differential.runner import Values, compare, compiled, keys_of, random_values, reference, region
from tests.differential.sized_patterns import SIZED_PATTERNS
from tests.families.row import test_cross_block_reduction as clusters
from tests.lowering import test_groups as groups
from tests.lowering import test_prefetch as prefetched
from tests.schedule.long_rows import chain, staged_to_the_end
from tests.support.cuda_on_cpu import ADVERSARIES, Adversary, Order, build, launch, run_on_cpu
from tests.support.tiers import each_commit
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import H200
from tf_stitch.emit.cuda import emit_cuda
from tf_stitch.emit.rendered import Packed
from tf_stitch.families.registry import FAMILIES
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.placement.executable import DeviceLaunch
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.runtime.host_run import aligned_copy
from tf_stitch.schedule.kernel_schedule import COOPERATIVE

B, F32, K = p.B, DType.F32, OpKind
short_rows = prefetched.short_rows


def x(*shape: int, dtype: DType = F32, name: str = "x") -> Node:
    return B.input(f"{name}:0", dtype, shape)


def rows(columns: int) -> list[Node]:
    """Reductions by value and by index, each of them more than once."""
    a = x(5, columns)
    best = [B.arg_reduce(K.ARGMAX, v, 1, DType.I64) for v in (a, B.neg(a))]
    return [p.softmax(a), *best, B.arg_reduce(K.ARGMIN, a, 1, DType.I32)]


def ties() -> list[Node]:
    """Small integers, of which many are equal."""
    return [B.arg_reduce(K.ARGMAX, x(5, 20, dtype=DType.I32), 1, DType.I32),
            B.arg_reduce(K.ARGMIN, x(5, 3000, dtype=DType.I32, name="y"), 1, DType.I32)]


def every_reduction(axis: int) -> list[Node]:
    a = x(300, 260)
    near_one = B.add(B.mul(a, B.constant(0.01, F32)), B.constant(1, F32))
    few, many = (B.op(K.LESS, a, B.constant(limit, F32)) for limit in (-2.5, 2.5))
    return [*(B.reduce(kind, a, [axis]) for kind in (K.SUM, K.MAX, K.MIN)), B.reduce(K.PROD, near_one, [axis]),
            B.reduce(K.ANY, few, [axis]), B.reduce(K.ALL, many, [axis])]


def row_and_column(dtype: DType) -> list[Node]:
    a = x(300, 136, dtype=dtype)
    return [p.softmax(a), B.sum(a, [0]), B.reduce(K.MAX, a, [0])]


def column_sums(count: int) -> list[Node]:
    return [B.sum(B.mul(x(64, 128, name=f"x{i}"), x(64, 128, name=f"y{i}")), [0]) for i in range(count)]


def running_sums() -> list[Node]:
    a = x(70, 50)
    return [B.cumsum(a, exclusive, reverse) for exclusive in (False, True) for reverse in (False, True)]


def movement() -> list[Node]:
    a, b = x(40, 36), x(36, 40, name="y")
    return [B.exp(B.transpose(a, [1, 0])), B.slice(B.neg(a), (0, 3), (2, 3), (20, 11)),
            p.softmax(B.slice(x(40, 136, name="z"), (0, 1), (1, 1), (40, 128))),
            B.pad(B.neg(a), B.constant(3, F32), (1, 0), (0, 2)), B.concat([b, B.exp(b)], 0)]


def state() -> TensorGraph:
    outputs, assigns = p.adam([(64, 128), (128,), (30, 17), (1,), ()])
    return region("adam", outputs, assigns)


GRAPHS: dict[str, Callable[[], TensorGraph]] = {
    "elements": lambda: region("g", [p.gelu_tanh(B.add(x(999, 52), x(52, name="b")))]),
    "odd elements": lambda: region("g", [p.gelu_erf(x(1003))]),
    "short rows": lambda: region("g", [B.sum(x(700, 8), [1]), p.softmax(x(37, 77, name="y"))]),
    **{f"rows of {n}": lambda n=n: region("g", rows(n)) for n in (33, 1000, 1500, 3000, 12_000)},  # type: ignore[misc]
    "equal elements": lambda: region("g", ties()),
    "every reduction of rows": lambda: region("g", every_reduction(1)),
    "every reduction of columns": lambda: region("g", every_reduction(0)),
    "layernorm": lambda: region("g", [p.layernorm(x(30, 768), x(768, name="g"), x(768, name="b"))]),
    "columns": lambda: region("g", [B.sum(B.exp(x(200, 1000)), [0])]),
    "few columns": lambda: region("g", [B.sum(x(700, 100), [0])]),
    "transpose": lambda: region("g", [B.exp(B.transpose(x(100, 90), [1, 0]))]),
    "running sums": lambda: region("g", running_sums()),
    "movement": lambda: region("g", movement()),
    **{f"rows and columns of {d.value}": lambda d=d: region("g", row_and_column(d))  # type: ignore[misc]
       for d in (DType.F16, DType.BF16, DType.F32, DType.F64)},
    "softmaxes in a pack": lambda: region("g", layers(24)),  # type: ignore[arg-type]
    "column sums in a pack": lambda: region("g", column_sums(12)),
    "momentum": lambda: region("g", [], p.momentum([(7, 9), (9,), (3, 3, 4)])),
    "adam": state,
    "cross entropy": lambda: region("g", p.cross_entropy(x(64, 1000), B.input("labels:0", DType.I64, (64,)))),
    "gradient of a normalisation": lambda: region("g", groups.layernorm_backward(64, 400)),
    "arrays that share memory": lambda: chain(4, 10_001, 3),
    "values staged to the end": lambda: staged_to_the_end(3, 16_001, 3)}


def for_h200(graph: TensorGraph, barriers: bool = True) -> CompiledRegion:
    return compiled(graph, H200, solver="greedy", barriers=barriers)


def check(graph: TensorGraph, built: CompiledRegion, adversary: Adversary, values: Values | None = None, runs: int = 1,
          aligned: bool = True) -> None:
    values = random_values(graph) if values is None else values
    got = run_on_cpu(graph, built, values, adversary, runs, aligned)
    compare(graph, got, *reference(graph, values), f"on a CPU, {adversary}")


@pytest.fixture(scope="module", params=[(name, barriers) for name in GRAPHS for barriers in (True, False)],
                ids=lambda p: f"{p[0]}, {'fused' if p[1] else 'apart'}")
def planned(request: pytest.FixtureRequest) -> tuple[TensorGraph, CompiledRegion]:
    """With and without cooperative fusion."""
    return planned_for_h200(*request.param)


@cache
def planned_for_h200(name: str, barriers: bool) -> tuple[TensorGraph, CompiledRegion]:
    graph = GRAPHS[name]()
    return graph, for_h200(graph, barriers)


def adversaries(test: object) -> object:
    """Each commit runs threads in order and backwards."""
    cases = each_commit(ADVERSARIES[:2], ADVERSARIES)
    return pytest.mark.parametrize("adversary", cases, ids=str)(test)  # type: ignore[arg-type]


@adversaries
def test_kernels_for_an_h200(planned: tuple[TensorGraph, CompiledRegion], adversary: Adversary) -> None:
    check(*planned, adversary)


def test_every_rule_is_here() -> None:
    """But attention, whose tests are in tests/emit, what writes rows, shares their values or keeps windows in
    registers, whose tests are in tests/families, and what is for CPUs alone."""
    built = [planned_for_h200(name, barriers)[1] for name in GRAPHS for barriers in (True, False)]
    found = {kernel.schedule.family for one in built for kernel in one.kernels}
    elsewhere = {"scatter", "row_update", "window_sums", "windows_in_registers", "row_values"}
    families = {family.name for family in FAMILIES if not family.matmuls} - elsewhere
    assert found == {*families, COOPERATIVE}


def below_twice_the_maximum() -> list[Node]:
    """Exponentials as of a softmax, but relative to another number: a block's own maximum does not do."""
    a = x(2, 16400)
    e = B.exp(B.sub(a, B.mul(B.reduce(K.MAX, a, [1], True), B.constant(2, F32))))
    return [B.div(e, B.sum(e, [1], True))]


MEETING = {**groups.CASES, "twice the maximum": below_twice_the_maximum,
           **{f"rows of {name}": make for name, make in groups.SHARED.items()}}


@pytest.mark.parametrize("name", MEETING)
@adversaries
def test_blocks_that_meet_at_grid_barriers(name: str, adversary: Adversary) -> None:
    """Twice on the same counters."""
    graph = region(name, MEETING[name]())
    built = compiled(graph, groups.SMALL)
    assert [s.cooperative for s in built.executable.steps if isinstance(s, DeviceLaunch)] == [True]
    check(graph, built, adversary, runs=2)


@pytest.mark.parametrize("name", clusters.CASES)
@adversaries
def test_blocks_of_a_cluster(name: str, adversary: Adversary) -> None:
    output, tiling, keep = clusters.CASES[name]
    graph = region(name, [output()])
    built = clusters.clustered(graph, tiling, keep)
    assert all(kernel.program.cluster > 1 for kernel in built.kernels)
    check(graph, built, adversary)


@pytest.mark.parametrize("name", prefetched.ROWS)
@pytest.mark.parametrize("columns", [4000, 4096])
@pytest.mark.usefixtures("short_rows")
@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
def test_rows_that_are_fetched_ahead(name: str, columns: int, adversary: Adversary) -> None:
    graph = region(name, [prefetched.ROWS[name](x(5, columns), columns)])
    built = compiled(graph, prefetched.IN_TURN)
    assert all(kernel.schedule.ahead for kernel in built.kernels)
    check(graph, built, adversary)


@adversaries
def test_rows_of_a_block_that_are_fetched_ahead(adversary: Adversary) -> None:
    lowered = prefetched.kernel(32, 300)
    assert lowered.schedule.ahead
    program = lowered.program
    buffers = {name: aligned_copy(value) for name, value in prefetched.buffers_of(lowered).items()}
    want = {name: value.copy() for name, value in buffers.items()}
    interpret_program(program, want)
    source = emit_cuda([("stitch", program)], [Packed("launch", (0,))])
    step = DeviceLaunch("launch", program.grid, program.threads, shared_bytes(program), ())
    launch(build(source), step, [value.ctypes.data for value in buffers.values()], 1, adversary)
    for name, value in want.items():
        np.testing.assert_allclose(buffers[name], value, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("name", SIZED_PATTERNS)
def test_kernels_for_changing_sizes(name: str) -> None:
    """Random numbers among them ("dropout")."""
    plans = PlanMemory()
    for adversary, (b, n) in zip(ADVERSARIES[1:4], [(3, 5), (2, 4), (2, 9)], strict=True):
        sizes = [size(key, value, 1 if value % 4 else 4) for key, value in (("b", b), ("n", n))]
        changing, graph = (region(name, SIZED_PATTERNS[name](*dims)) for dims in (sizes, (b, n)))
        built = compile_region(changing, *keys_of(changing), CompileOptions(H200, plans=plans))
        check(graph, built, adversary)


@pytest.mark.parametrize("seed", each_commit(range(8), range(24)))
def test_random_graphs(seed: int) -> None:
    case = make_case(random.Random(seed), 14, 1500)
    aligned = seed % 2 == 0
    built = compiled(case.graph, H200, aligned, "greedy")
    if built.source:
        check(case.graph, built, Adversary(Order.SHUFFLED, seed), case.values, aligned=aligned)


def test_a_row_that_is_not_there_is_zero() -> None:
    """As TensorFlow has it on a GPU; and is not read."""
    graph = region("g", [B.add(B.op(K.GATHER, x(4, 12), B.input("ids:0", DType.I32, (5,))), B.constant(1, F32))])
    values = random_values(graph) | {"ids:0": np.array([0, -1, 3, 4, 1 << 30], np.int32)}
    want = np.ones((5, 12), np.float32)
    want[[0, 2]] += values["x:0"][[0, 3]]
    got = run_on_cpu(graph, for_h200(graph), values, Adversary(Order.AHEAD))["o0"]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_halves_are_rounded_to_the_nearest(dtype: DType) -> None:
    """To the even one of two, and NaN to NaN."""
    halfway = [(1 + (2 * i + 1) / 2 ** (11 if dtype is DType.F16 else 8)) * sign for i in range(9) for sign in (1, -1)]
    value = np.array([*halfway, 0.0, -0.0, 1 / 3, 1e30, -1e30, 1e-41, 65519, 65520, 3.4e38, np.inf, -np.inf, np.nan],
                     np.float32)
    graph = region("g", [B.cast(x(len(value)), dtype)])
    got = run_on_cpu(graph, for_h200(graph), {"x:0": value}, Adversary(Order.AHEAD))["o0"]
    with np.errstate(over="ignore"):
        want = value.astype(dtype.numpy)
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(got[:-1]), np.signbit(value[:-1]))


def test_unaligned_buffers_use_no_vectors() -> None:
    a = x(4, 64)
    graph = region("g", [p.softmax(a), B.sum(a, [0]), B.exp(a)])
    check(graph, compiled(graph, H200, aligned=False), Adversary(Order.AHEAD), aligned=False)
