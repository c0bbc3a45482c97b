"""Rows that are written where they lie by the kernels that compute them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import Values, compare, compiled, random_values, reference, run_kernel_ir
from tests.support.cuda_on_cpu import ADVERSARIES, Adversary, run_on_cpu
from tests.support.whole_patterns import whole
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ScheduleError
from tf_stitch.families.registry import FAMILIES
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, key_of, make_node
from tf_stitch.ir.op_attrs import Combine, ScatterAttrs
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.kernel_ir.verifier import verify_program

B, F32, I32 = p.B, DType.F32, DType.I32
FAMILY = FAMILIES[-1]
ROWS = 200
Made = tuple[Node, ...]


def weights(*shape: int, key: str = "w", dtype: DType = F32) -> Node:
    return B.input(key, dtype, shape)


def column_sums(dtype: DType) -> Made:
    """Two matmuls of a row with a bias each, as sums: keys and values."""
    x = weights(96, 1, key="x", dtype=dtype)
    return tuple(B.reshape(B.add(B.sum(B.mul(x, weights(96, 64, key=f"w{i}", dtype=dtype)), [0]),
                                 weights(64, key=f"b{i}", dtype=dtype)), (1, 64)) for i in range(2))


def row_sums(dtype: DType) -> Made:
    return (B.reshape(B.sum(weights(128, 300, dtype=dtype), [1]), (2, 64)),)


def norms(dtype: DType) -> Made:
    """Of each row, which is written as a whole."""
    return (p.softmax(weights(5, 64, dtype=dtype)),)


def elements(dtype: DType) -> Made:
    x = weights(6, 64, dtype=dtype)
    return (B.mul(x, x),)


def turned(dtype: DType) -> Made:
    return (B.reshape(B.transpose(weights(3, 64, 32, dtype=dtype), [0, 2, 1]), (96, 64)),)


def odd(dtype: DType) -> Made:
    x = weights(7, 3, dtype=dtype)
    return (B.add(x, x),)


SUMS: dict[str, Callable[[DType], Made]] = {f.__name__: f for f in (column_sums, row_sums, norms)}
MOVED: dict[str, Callable[[DType], Made]] = {f.__name__: f for f in (elements, turned, odd)}
"""What a scatter computes itself."""


def updating(values: Made, more: Callable[[Node], list[Node]] = lambda scatter: []) -> TensorGraph:
    """A tensor to which values are written, one behind the other."""
    count, width = sum(v.type.dims[0] for v in values), values[0].type.dims[1]
    numbers = B.add(B.constant(np.arange(count) * 2, I32), B.input("at", I32, (1,)))
    cache = B.input("cache", values[0].type.dtype, (ROWS, width))
    new = B.scatter(cache, numbers, B.concat(values, 0), (ROWS, width), Combine.SET, in_place=True)
    return TensorGraph("rows", [("o0", new), *((f"o{i}", n) for i, n in enumerate(more(new), 1))])


def values_of(graph: TensorGraph, at: int) -> Values:
    return random_values(graph) | {"at": np.array([at], np.int32)}


def families(built: CompiledRegion) -> list[str]:
    return [kernel.schedule.family for kernel in built.kernels]


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
@pytest.mark.parametrize("name", SUMS)
def test_rows_are_written_by_who_computes_them(name: str, adversary: Adversary) -> None:
    graph = updating(SUMS[name](F32))
    built, values = compiled(graph, H200), values_of(graph, 3)
    assert families(built)[-1] == "row_update"
    assert "scatter" not in families(built)
    assert built.executable.updated == ((0, built.executable.inputs.index("cache")),)
    compare(graph, run_on_cpu(graph, built, values, adversary), *reference(graph, values), "CUDA")


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("name", SUMS)
def test_kernel_ir(name: str, aligned: bool) -> None:
    graph = updating(SUMS[name](F32))
    built, values = compiled(graph, H200, aligned), values_of(graph, 0)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "kernel IR")


def rows_only(scatter: Node) -> Node:
    assert isinstance(scatter.attrs, ScatterAttrs)
    attrs = replace(scatter.attrs, in_place=True, rows_only=True)
    return make_node(scatter.kind, scatter.operands, attrs, scatter.loc)


def updated(graph: TensorGraph, values: Values, aligned: bool = True) -> Iterator[Values]:
    """The result by each schedule of the family, the tensor in one memory with what it was."""
    [(_, scatter)] = graph.outputs
    schedules = FAMILY.propose(whole(rows_only(scatter)), H200, aligned)
    assert schedules
    for schedule in schedules:
        lowered = FAMILY.lower(schedule)
        program = lowered.program
        verify_program(program)
        buffers = {}
        cache = values["cache"].reshape(-1).copy()
        for (node, mode), b in zip(lowered.arguments, program.parameters, strict=True):
            is_cache = mode is not Mode.READ or key_of(node) == "cache"
            buffers[b.name] = cache if is_cache else values[key_of(node)].reshape(-1)
        interpret_program(program, buffers)
        yield {"o0": cache.reshape(values["cache"].shape)}


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("dtype", [F32, DType.F16, DType.BF16, DType.F64, I32], ids=lambda d: d.value)
@pytest.mark.parametrize("name", MOVED)
def test_elements(name: str, dtype: DType, aligned: bool) -> None:
    """By whole vectors, but for rows of three elements."""
    graph = updating(MOVED[name](dtype))
    values = values_of(graph, 5)
    for found in updated(graph, values, aligned):
        compare(graph, found, *reference(graph, values), "kernel IR")


@pytest.mark.parametrize("at", [-3, -100, ROWS - 5, ROWS])
def test_rows_that_are_not_there_are_left_out(at: int) -> None:
    """As by a scatter on a GPU."""
    graph = updating(elements(F32))
    values = values_of(graph, at)
    wanted = values["cache"].copy()
    for number, row in enumerate(values["w"] ** 2):
        if 0 <= number * 2 + at < ROWS:
            wanted[number * 2 + at] = row
    for found in updated(graph, values):
        np.testing.assert_array_equal(found["o0"], wanted)


def test_several_tensors_of_one_kernel() -> None:
    """Keys and values in a tensor each, written by one kernel, that writes something else beside."""
    x = weights(8, 64)
    whole_row = p.softmax(x)
    at = B.input("at", I32, (1,))
    new = [B.scatter(B.input(f"cache{i}", F32, (ROWS, 64)), B.add(B.iota((8,), 0, I32), at),
                     B.mul(whole_row, B.scalar_like(i + 2, x)), (ROWS, 64), Combine.SET, in_place=True)
           for i in range(2)]
    graph = TensorGraph("two", [("o0", new[0]), ("o1", new[1]), ("o2", B.neg(whole_row))])
    built, values = compiled(graph, H200), values_of(graph, 11)
    assert "scatter" not in families(built)
    assert len(built.executable.updated) == 2
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "kernel IR")
    for adversary in ADVERSARIES[:2]:
        compare(graph, run_on_cpu(graph, built, values, adversary), *reference(graph, values), "CUDA")


def refused(node: Node, *more: Node) -> str:
    with pytest.raises(ScheduleError) as error:
        FAMILY.propose(whole(node, *more), H200, True)
    return error.value.message


def test_what_it_refuses() -> None:
    x, cache, numbers = weights(4, 8), B.input("cache", F32, (16, 8)), B.iota((4,), 0, I32)
    squares = B.mul(x, x)
    plain = B.scatter(cache, numbers, squares, (16, 8), Combine.SET, in_place=True)
    assert refused(squares) == "no scatter"
    assert refused(plain) == "a scatter that does not just write rows"
    summed = rows_only(B.scatter(cache, numbers, squares, (16, 8), Combine.SUM, in_place=True))
    assert refused(summed) == "a scatter that does not just write rows"
    assert refused(rows_only(plain), squares) == "rows that others read, too"
    twice = B.scatter(cache, B.iota((8,), 0, I32), B.concat([squares, squares], 0), (16, 8), Combine.SET)
    assert refused(rows_only(twice)) == "rows that others read, too"
    given = B.scatter(cache, numbers, x, (16, 8), Combine.SET)
    assert refused(rows_only(given)) == "rows that another kernel computes"
    first = rows_only(plain)
    assert refused(rows_only(B.scatter(first, numbers, B.exp(x), (16, 8), Combine.SET)), first).startswith("a scatter")
    with pytest.raises(ScheduleError, match="tasks"):
        FAMILY.propose(whole(first), CPU, True)


def test_a_kernel_that_reads_what_it_updates() -> None:
    cache = Builder().input("cache", F32, (16, 8))
    rows = B.add(B.slice(cache, [0, 0], [1, 1], (4, 8)), weights(4, 8))
    scatter = rows_only(B.scatter(cache, B.iota((4,), 0, I32), rows, (16, 8), Combine.SET))
    for schedule in FAMILY.propose(whole(scatter), H200, True):
        with pytest.raises(ScheduleError, match="reads what it updates"):
            FAMILY.lower(schedule)
