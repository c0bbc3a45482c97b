"""Tensors of which rows are written become scatters that follow each other in one memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import Values, compare, compiled, random_values, reference, run_host, run_kernel_ir
from tests.support.cuda_on_cpu import ADVERSARIES, Adversary, run_on_cpu
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import Combine, ScatterAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.position_masks import offsets_from, within
from tf_stitch.ir.text_format import format_graph
from tf_stitch.passes.update_in_place import update_in_place

B, F32, I32 = p.B, DType.F32, DType.I32
TEXTS, LAYERS, LENGTH, HEADS, DEPTH = 3, 2, 24, 2, 64
CACHE = (TEXTS, LAYERS, 2, LENGTH, HEADS, DEPTH)


def written(old: Node, row: Node, at: Node, axis: int) -> Node:
    """As XlaDynamicUpdateSlice is legalized."""
    dims = old.type.dims
    mask = within(B, offsets_from(B, dims[axis], at), 1)
    mask = B.reshape(mask, tuple(d if a == axis else 1 for a, d in enumerate(dims)))
    return B.select(mask, B.broadcast(row, dims), old)


def layer_of(cache: Node, layer: int) -> Node:
    part = B.slice(cache, [0, layer, 0, 0, 0, 0], [1] * 6, (TEXTS, 1, *CACHE[2:]))
    return B.reshape(part, (TEXTS, *CACHE[2:]))


def half_of(layer: Node, half: int) -> Node:
    part = B.slice(layer, [0, half, 0, 0, 0], [1] * 5, (TEXTS, 1, *CACHE[3:]))
    return B.reshape(part, (TEXTS, *CACHE[3:]))


def sums(x: Node, keys: Node, values: Node) -> Node:
    return B.reshape(B.sum(B.mul(keys, values), [1]), x.type.dims)


def decoder(dtype: DType = F32, read: Callable[[Node, list[Node]], Node] = lambda cache, halves: halves[0],
            attend: Callable[[Node, Node, Node], Node] = sums) -> TensorGraph:
    """A cache of keys and values to which each layer adds a row; the row of the next layer comes of them all.

    Args:
        read: what a layer reads as its keys, of the cache that came in, and its new keys and values.
        attend: makes the next row [texts, 1, heads, depth] of the last one, and of keys and values.
    """
    cache, at = B.input("i0", dtype, CACHE), B.input("i1", I32, (1,))
    x = B.input("i2", dtype, (TEXTS, 1, HEADS, DEPTH))
    layers = []
    for number in range(LAYERS):
        layer = layer_of(cache, number)
        halves = [written(half_of(layer, half), B.mul(x, B.scalar_like(half + 2, x)), at, 1) for half in range(2)]
        x = attend(x, read(cache, halves), halves[1])
        halves = [B.reshape(half, (TEXTS, 1, *CACHE[3:])) for half in halves]
        layers.append(B.reshape(B.concat(halves, 1), (TEXTS, 1, *CACHE[2:])))
    return TensorGraph("decoder", [("o0", B.concat(layers, 1)), ("o1", x)])


def attending() -> TensorGraph:
    """A decoder whose layers attend to all keys."""
    def attend(x: Node, keys: Node, values: Node) -> Node:
        scores = B.dot(B.transpose(x, [0, 2, 1, 3]), B.transpose(keys, [0, 2, 3, 1]), False, False)
        mixed = B.dot(p.softmax(scores), B.transpose(values, [0, 2, 1, 3]), False, False)
        return B.transpose(mixed, [0, 2, 1, 3])

    return decoder(attend=attend)


def scatters(graph: TensorGraph) -> list[Node]:
    return [n for n in graph.nodes() if n.kind is K.SCATTER]


def values_of(graph: TensorGraph, at: int) -> Values:
    return random_values(graph) | {"i1": np.array([at], np.int32)}


@pytest.mark.parametrize("at", [0, 7, LENGTH - 1])
@pytest.mark.parametrize("dtype", [F32, DType.F16, DType.I32], ids=lambda d: d.value)
def test_what_it_computes(dtype: DType, at: int) -> None:
    graph = decoder(dtype)
    after = update_in_place(graph, "i0", "o0", 0)
    values = values_of(graph, at)
    for key, wanted in interpret(graph, values).items():
        np.testing.assert_array_equal(interpret(after, values)[key], wanted)


def test_a_scatter_for_each_layer_in_a_chain() -> None:
    found = scatters(update_in_place(decoder(), "i0", "o0", 0))
    assert len(found) == LAYERS
    assert all(b.operands[0] is a for a, b in pairwise(found))
    assert all(isinstance(n.attrs, ScatterAttrs) and n.attrs.in_place for n in found)
    assert {n.operands[2].type.dims for n in found} == {(2 * TEXTS, HEADS, DEPTH)}, "keys and values together"


def test_as_text() -> None:
    cache, row, at = B.input("i0", F32, (4, 9, 8)), B.input("i1", F32, (4, 1, 8)), B.input("i2", I32, (1,))
    new = written(cache, row, at, 1)
    graph = update_in_place(TensorGraph("one", [("o0", new), ("o1", B.sum(new, [1]))]), "i0", "o0", 0)
    assert format_graph(graph) == """graph one
  %0 = input() {key=i0, type=float32[4,9,8]} : float32[4,9,8]
  %1 = constant() {value=[0, 9, 18, 27]} : int32[4]
  %2 = input() {key=i2, type=int32[1]} : int32[1]
  %3 = add(%1, %2) : int32[4]
  %4 = input() {key=i1, type=float32[4,1,8]} : float32[4,1,8]
  %5 = reshape(%4) {shape=[4,8]} : float32[4,8]
  %6 = scatter(%0, %3, %5) {shape=[4,9,8], combine=set, updates_first=False, row_axes=2, in_place=True, rows_only=False} : float32[4,9,8]
  %7 = sum(%6) {axes=[1]} : float32[4,8]
  out o0 = %6
  out o1 = %7
"""  # noqa: E501


@pytest.mark.parametrize("seen", [False, True])
def test_a_scatter_of_the_user(seen: bool) -> None:
    """`tf.tensor_scatter_nd_update`: in place, if nobody else sees what was there."""
    old, rows, updates = B.input("i0", F32, (64, 8)), B.input("i1", I32, (2,)), B.input("i2", F32, (2, 8))
    new = B.scatter(old, rows, updates, (64, 8), Combine.SET)
    graph = TensorGraph("user", [("o0", new), ("o1", B.sum(old if seen else new, [0]))])
    [found] = scatters(update_in_place(graph, "i0", "o0", 0))
    assert isinstance(found.attrs, ScatterAttrs)
    assert found.attrs.in_place is not seen


def test_parts_that_nothing_is_written_to() -> None:
    cache, row, at = B.input("i0", F32, (2, 16, 8)), B.input("i1", F32, (1, 1, 8)), B.input("i2", I32, (1,))
    first, second = (B.slice(cache, [i, 0, 0], [1] * 3, (1, 16, 8)) for i in range(2))
    graph = TensorGraph("half", [("o0", B.concat([first, written(second, row, at, 1)], 0))])
    after = update_in_place(graph, "i0", "o0", 0)
    values = random_values(graph) | {"i2": np.array([3], np.int32)}
    assert len(scatters(after)) == 1
    np.testing.assert_array_equal(interpret(after, values)["o0"], interpret(graph, values)["o0"])


def later(cache: Node, halves: list[Node]) -> Node:
    """What came in, beside what is written."""
    return half_of(layer_of(cache, 0), 0)


def turned(shape: tuple[int, ...]) -> TensorGraph:
    cache, row = B.input("i0", F32, shape), B.input("i1", F32, (*shape[:1], 1, *shape[2:]))
    at = B.input("i2", I32, (1,))
    return TensorGraph("turned", [("o0", written(B.transpose(cache, [1, 0, 2]), row, at, 1))])


def swapped() -> TensorGraph:
    """Layers change places."""
    cache, row, at = B.input("i0", F32, (2, 16, 8)), B.input("i1", F32, (1, 1, 8)), B.input("i2", I32, (1,))
    first, second = (B.slice(cache, [i, 0, 0], [1] * 3, (1, 16, 8)) for i in range(2))
    return TensorGraph("swapped", [("o0", B.concat([second, written(first, row, at, 1)], 0))])


def kept() -> TensorGraph:
    graph = decoder()
    cache = next(n for n in graph.inputs() if n.type.dims == CACHE)
    return TensorGraph("kept", [*graph.outputs, ("o2", cache)])


def part_of_rows() -> TensorGraph:
    cache, at = B.input("i0", F32, (2, 16, 8)), B.input("i2", I32, (1,))
    part = written(B.slice(cache, [0, 0, 0], [1] * 3, (2, 16, 4)), B.input("i1", F32, (2, 1, 4)), at, 1)
    return TensorGraph("part", [("o0", B.concat([part, B.slice(cache, [0, 0, 4], [1] * 3, (2, 16, 4))], 2))])


def many_rows() -> TensorGraph:
    cache, row, at = B.input("i0", F32, (4, 2, 8)), B.input("i1", F32, (4, 1, 8)), B.input("i2", I32, (1,))
    return TensorGraph("many", [("o0", written(cache, row, at, 1))])


def masked(shape: tuple[int, ...]) -> TensorGraph:
    """One position of a vector of 64, which is several axes."""
    mask = B.reshape(within(B, offsets_from(B, 64, B.input("i2", I32, (1,))), 1), shape)
    return TensorGraph("masked", [("o0", B.select(mask, B.input("i1", F32, (8, 8, 1)), B.input("i0", F32, (8, 8, 4))))])


@pytest.mark.parametrize("graph", [masked((8, 8, 1)), decoder(read=later), turned((16, 16, 8)), swapped(), kept(),
                                   part_of_rows(), many_rows(),
                                   TensorGraph("exp", [("o0", B.exp(B.input("i0", F32, (64, 64))))])],
                         ids=lambda graph: graph.name)
def test_what_stays_as_it_is(graph: TensorGraph) -> None:
    assert update_in_place(graph, "i0", "o0", 0) is graph


def test_small_tensors_are_copied() -> None:
    graph = decoder()
    assert update_in_place(graph, "i0", "o0", 1 << 20) is graph


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_the_output_is_the_input_updated(device: DeviceSpec) -> None:
    graph = update_in_place(decoder(), "i0", "o0", 0)
    region, values = compiled(graph, device), values_of(graph, 5)
    assert region.executable.updated == ((0, 0),)
    compare(graph, run_kernel_ir(graph, region, values), *reference(graph, values), "kernel IR")
    if device is CPU:
        compare(graph, run_host(graph, region, values), *reference(graph, values), "compiled")


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
def test_threads_in_any_order(adversary: Adversary) -> None:
    graph = update_in_place(decoder(), "i0", "o0", 0)
    values = values_of(graph, 9)
    compare(graph, run_on_cpu(graph, compiled(graph, H200), values, adversary), *reference(graph, values), "CUDA")


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_attention_reads_keys_and_values_where_they_lie(device: DeviceSpec) -> None:
    """One row of queries: on a GPU the attention is a kernel, and no kernel copies a cache."""
    graph = update_in_place(attending(), "i0", "o0", 0)
    region, values = compiled(graph, device), values_of(graph, 11)
    assert region.executable.updated == ((0, 0),)
    families = [kernel.schedule.family for kernel in region.kernels]
    assert (families.count("attention") == LAYERS) is device.simt
    compare(graph, run_kernel_ir(graph, region, values), *reference(graph, values), "kernel IR")
