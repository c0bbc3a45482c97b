"""The matmul kernel as it is emitted, run on this machine, and as kernel IR."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle
from itertools import product as combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import Array, Values, build_cubin, random_values, reference, region, run_kernel_ir
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tests.support.stitched_matmuls import B, compiled_stitched, row, scaled_gelu, silu, swiglu, x
from tests.support.tiers import each_commit, rows_of_each_commit
from tf_stitch.device.spec import H200, DeviceSpec, gpu_spec
from tf_stitch.families.matmul import MATMUL
from tf_stitch.families.matmul_tiles import FEW_ROWS, TILES
from tf_stitch.families.warpgroup_tiles import PAIRED, WARPGROUP_TILES
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.passes.matmuls_to_kernels import in_kernel
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tf_stitch.schedule.kernel_schedule import Origin

F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
ERROR = {F32: 6e-3, F16: 6e-3, BF16: 3e-2, DType.F64: 6e-3}
"""Relative to the largest result, from operands of 11, 11 and 8 bits; results of float64 are no more exact."""


def transposed(dtype: DType, m: int = 40, k: int = 72, n: int = 48) -> list[Node]:
    """Both operands stored with their axes exchanged, and the result, too."""
    product = B.dot(x("a", dtype, k, m), x("b", dtype, n, k), True, True)
    return [B.transpose(silu(product), (1, 0))]


def computed(dtype: DType, m: int = 40, k: int = 72, n: int = 48) -> list[Node]:
    """Both operands computed, from memory with exchanged axes."""
    a, b = B.transpose(B.exp(x("a", F32, k, m)), (1, 0)), B.op(OpKind.TANH, x("b", F32, n, k))
    return [silu(B.dot(B.cast(a, dtype), B.cast(b, dtype), False, True))]


def normalised(dtype: DType, m: int = 40, k: int = 64, n: int = 48) -> list[Node]:
    """Rows of given mean and deviation."""
    a = B.cast(x("x", dtype, m, k), F32)
    normal = B.mul(B.sub(a, x("mean", F32, m, 1)), B.op(OpKind.RSQRT, B.square(x("deviation", F32, m, 1))))
    scaled = B.cast(B.add(B.mul(normal, row(x("g", F32, k), normal)), row(x("c", F32, k), normal)), dtype)
    return [B.add(silu(B.dot(scaled, x("w", dtype, k, n))), x("y", dtype, m, n))]


def heads(dtype: DType, batch: int = 2, count: int = 3, m: int = 20, k: int = 32, n: int = 24) -> list[Node]:
    """Matrices that lie as layers leave them, and a bias for each of them."""
    a = B.transpose(B.reshape(x("a", dtype, batch * m, count * k), (batch, m, count, k)), (0, 2, 1, 3))
    product = B.dot(a, x("b", dtype, batch, count, k, n))
    return [B.op(OpKind.TANH, B.add(product, x("bias", dtype, batch, count, 1, n)))]


def several(dtype: DType, m: int = 50, k: int = 64, n: int = 40) -> list[Node]:
    """The matmul itself, as training keeps it, in a shape of its own, and what is made of it in another type."""
    product = B.dot(x("a", dtype, m, k), x("b", dtype, k, n))
    return [product, B.cast(silu(product), F32 if dtype is not F32 else F16),
            B.transpose(B.reshape(B.exp(B.neg(B.square(product))), (2, m // 2, n)), (1, 0, 2))]


def summed(dtype: DType, batch: int = 3, m: int = 20, k: int = 40, n: int = 32) -> list[Node]:
    """A reduction into a batched dot (FusionStitching Fig. 5d)."""
    total = B.sum(x("x", dtype, batch, m, k, 6), [3])
    return [silu(B.dot(total, x("y", dtype, batch, k, n)))]


def odd(dtype: DType) -> list[Node]:
    """Nothing that a vector can read."""
    product = B.dot(x("a", dtype, 35, 37), x("b", dtype, 37, 19))
    return [B.mul(silu(product), x("y", dtype, 35, 19))]


def cut(product: Node, gates: int) -> list[Node]:
    """Equal parts of a result's columns."""
    rows, columns = product.type.shape
    return [B.slice(product, (0, i * columns // gates), (1, 1), (rows, columns // gates)) for i in range(gates)]


def pairs(dtype: DType, m: int, k: int, n: int, across: bool = False, down: bool = False, other: DType = F32,
          batch: tuple[int, ...] = ()) -> TensorGraph:
    """Both operands in memory, and two results. Of the larger type of these a thread finishes 16 bytes at a time."""
    a, b = x("a", dtype, *batch, *((k, m) if across else (m, k))), x("b", dtype, *batch, *((n, k) if down else (k, n)))
    product = B.mul(matmul := B.dot(a, b, across, down), p.const(k ** -0.5, matmul))
    return region("pairs", [B.mul(silu(product), x("y", dtype, *batch, m, n)),
                            B.cast(B.exp(B.neg(B.square(product))), other)])


def sigmoid(v: Node) -> Node:
    return B.op(OpKind.SIGMOID, v)


def lstm(dtype: DType, m: int = 40, k: int = 72, units: int = 24, down: bool = False) -> list[Node]:
    """The states that a cell leaves, of one matmul's four gates."""
    w = x("w", dtype, 4 * units, k) if down else x("w", dtype, k, 4 * units)
    product = B.dot(x("h", dtype, m, k), w, False, down)
    product = B.mul(product, p.const(1 / 16, product))
    product = B.add(B.add(product, x("given", dtype, m, 4 * units)), row(x("bias", dtype, 4 * units), product))
    into, forget, new, out = cut(product, 4)
    state = B.add(B.mul(sigmoid(forget), x("c", dtype, m, units)), B.mul(sigmoid(into), B.op(OpKind.TANH, new)))
    hidden = B.mul(sigmoid(out), B.op(OpKind.TANH, state))
    return [state, B.reshape(hidden, (1, m, units))]


def gru(dtype: DType, m: int = 40, k: int = 72, units: int = 24) -> list[Node]:
    """A cell that resets behind the matmul."""
    product = B.dot(x("h", dtype, m, k), x("w", dtype, k, 3 * units))
    update, reset, new = cut(B.mul(product, p.const(1 / 16, product)), 3)
    its_update, its_reset, its_new = (x(f"given_{i}", dtype, m, units) for i in range(3))
    update, reset = sigmoid(B.add(update, its_update)), sigmoid(B.add(reset, its_reset))
    new = B.op(OpKind.TANH, B.add(its_new, B.mul(reset, new)))
    return [B.add(B.mul(update, x("before", dtype, m, units)), B.sub(new, B.mul(update, new)))]


BY_WARPS = replace(H200, warpgroup_matmuls=False)
"""Half types are multiplied by mma.sync, as on other devices."""
MAKERS = {maker.__name__: maker for maker in (scaled_gelu, swiglu, transposed, computed, normalised, heads, several,
                                              summed, odd, lstm, gru)}


@pytest.fixture(scope="module", params=[f"{name} {dtype.value}" for name in MAKERS for dtype in (F32, BF16)]
                + ["scaled_gelu float16", "transposed float16"])
def graph(request: pytest.FixtureRequest) -> TensorGraph:
    name, dtype = request.param.split()
    return region(name, MAKERS[name](DType(dtype)))


def check(graph: TensorGraph, got: Values, wanted: Values) -> None:
    for key, node in graph.outputs:
        dtype = max((n.type.dtype for n in graph.nodes() if n.kind is OpKind.DOT), key=lambda d: ERROR[d])
        most = max(ERROR[dtype], ERROR[node.type.dtype]) * max(np.abs(wanted[key]).max(), 1.0)
        np.testing.assert_allclose(got[key].astype(np.float64), wanted[key].astype(np.float64), rtol=0, atol=most,
                                   err_msg=key)


def wanted_of(graph: TensorGraph) -> tuple[Values, dict[str, Array]]:
    values = random_values(graph)
    return values, reference(graph, values)[0]


@pytest.mark.parametrize("order", each_commit([Order.AHEAD, Order.BEHIND], [Order.AHEAD, Order.BEHIND, Order.SHUFFLED]))
def test_gives_what_its_nodes_give(graph: TensorGraph, order: Order) -> None:
    """Whichever warp is ahead, and whether copies are there at once or when they are waited for."""
    built = compiled_stitched(graph)
    assert MATMUL.name in [kernel.schedule.family for kernel in built.kernels]
    assert len(built.calls) == (graph.name == "swiglu")
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(order)), wanted)


def test_kernel_ir_means_the_same(graph: TensorGraph) -> None:
    built = compiled_stitched(graph, template="*[GRID-CTA_32,GRID-CTA_64];")
    values, wanted = wanted_of(graph)
    check(graph, run_kernel_ir(graph, built, values), wanted)


def test_nvrtc_takes_it(graph: TensorGraph) -> None:
    build_cubin(compiled_stitched(graph))


@pytest.mark.parametrize("rows", [16, 40])
def test_nvrtc_takes_it_for_devices_without_clusters(rows: int, tmp_path: Path) -> None:
    graph = region("older", [silu(in_kernel(B.dot(x("a", BF16, rows, 768), x("b", BF16, 768, 256))))])
    built = compiled_stitched(graph, gpu_spec(H200.profile, "80"))
    assert [kernel.schedule.family for kernel in built.kernels] == [MATMUL.name]
    assert build_cuda(built.source, "80", KernelCache(tmp_path))


def in_turns(tiles: Iterable[tuple[int, int]]) -> Any:
    """Each commit has every tile in one of two types."""
    tiles = list(tiles)
    return pytest.mark.parametrize(("tile", "dtype"), rows_of_each_commit(
        zip(tiles, cycle((F32, BF16)), strict=False), combinations(tiles, (F32, BF16))), ids=str)


@in_turns(TILES)
def test_every_tile(tile: tuple[int, int], dtype: DType) -> None:
    """More tiles than one each way, the last ones cut off."""
    check_tile(tile, dtype, BY_WARPS)


def check_tile(tile: tuple[int, int], dtype: DType, device: DeviceSpec) -> None:
    rows, columns = tile
    graph = region("tiles", scaled_gelu(dtype, rows + 8, 88, columns + 8))
    built = compiled_stitched(graph, device, template=f"*[GRID-CTA_{rows},GRID-CTA_{columns}];")
    assert [kernel.schedule.mapping.grid for kernel in built.kernels] == [4]
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(Order.BEHIND)), wanted)


@pytest.mark.parametrize("tile", [tile for tile in WARPGROUP_TILES if tile != (64, 64)], ids=str)
def test_every_tile_of_warpgroups(tile: tuple[int, int]) -> None:
    """As above; (64, 64) of so few rows is another kernel's."""
    check_tile(tile, BF16, H200)


@in_turns(FEW_ROWS)
def test_every_tile_of_few_rows(tile: tuple[int, int], dtype: DType) -> None:
    """As above, of a matmul that has few rows."""
    check_tile(tile, dtype, H200)


def test_warpgroups_use_stages_again() -> None:
    """Copies that come at once overwrite nothing that is multiplied."""
    graph = region("stages", scaled_gelu(BF16, 200, 648, 136))
    built = compiled_stitched(graph, template="*[GRID-CTA_192,GRID-CTA_128];")
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(Order.AHEAD)), wanted)


SMALL = replace(H200, processors=2, shared_bytes=120 << 10)
"""Blocks of a pair have several tiles, of more terms than their stages hold."""


@pytest.mark.parametrize("tile", PAIRED, ids=str)
@pytest.mark.parametrize("order", each_commit([Order.BEHIND], Order))
def test_pairs_have_tiles_in_turns(tile: tuple[int, int], order: Order) -> None:
    """Whichever warpgroup is ahead: neither takes a stage of the other's, and none is overwritten before its use."""
    graph = pairs(F16, 136, 72 + 64 * 5, 264)
    built = compiled_stitched(graph, SMALL, template=f"*[GRID-CTA_{tile[0]},GRID-CTA_{tile[1]}];")
    kernel, = built.kernels
    shape, tiling = kernel.schedule.matmul or pytest.fail("no matmul")
    assert (kernel.program.grid, kernel.program.cluster) == (2, 2)
    assert tiling.turns(shape) > 2 < tiling.stages < tiling.steps(shape)
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(order)), wanted)


def test_kernel_ir_of_pairs_means_the_same() -> None:
    graph = pairs(F16, 72, 72, 136)
    built = compiled_stitched(graph, SMALL, template="*[GRID-CTA_64,GRID-CTA_128];")
    assert [kernel.program.cluster for kernel in built.kernels] == [2]
    values, wanted = wanted_of(graph)
    check(graph, run_kernel_ir(graph, built, values), wanted)


STORED = list(combinations((False, True), repeat=2))


@pytest.mark.parametrize(("tile", "across", "down"), rows_of_each_commit(
    [(tile, *stored) for tile, stored in zip([*PAIRED, PAIRED[0]], STORED, strict=True)],
    [(tile, *stored) for tile in PAIRED for stored in STORED]))
def test_pairs_share_either_operand(tile: tuple[int, int], across: bool, down: bool) -> None:
    """An odd number of whole tiles across: the second of a last pair has nothing. Operands are stored either way."""
    check_pairs(pairs(BF16, 264, 72, 384, across, down), tile)


@pytest.mark.parametrize(("other", "vector", "n"), rows_of_each_commit(
    [(BF16, 8, 264), (F32, 4, 256), (DType.F64, 2, 264)],
    [(*of_type, n) for of_type in ((BF16, 8), (F32, 4), (DType.F64, 2)) for n in (256, 264)]))
def test_threads_of_pairs_exchange_columns(other: DType, vector: int, n: int) -> None:
    """So many neighbours; all columns of the last tile are there, or some."""
    check_pairs(pairs(BF16, 136, 72, n, other=other), (128, 128), vector)


def test_pairs_of_many_rows_and_matrices() -> None:
    """More rows of tiles than are gone through together, and a batch."""
    check_pairs(pairs(BF16, 64 * 18, 40, 136), (64, 128))
    check_pairs(pairs(BF16, 136, 72, 200, down=True, batch=(3,)), (128, 128))


def check_pairs(graph: TensorGraph, tile: tuple[int, int], vector: int = 4) -> None:
    built = compiled_stitched(graph, template=f"*[GRID-CTA_{tile[0]},GRID-CTA_{tile[1]}];")
    kernel, = built.kernels
    shape, _ = kernel.schedule.matmul or pytest.fail("no matmul")
    assert (kernel.program.cluster, shape.vector) == (2, vector)
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(Order.BEHIND)), wanted)
    build_cubin(built)


def test_warpgroups_finish_gates_together() -> None:
    """Of more rows than few; the last tiles are cut off."""
    graph = region("cell", lstm(BF16, 264, 72, 72))
    built = compiled_stitched(graph, template="*[GRID-CTA_128,GRID-CTA_128];")
    kernel, = built.kernels
    shape, tiling = kernel.schedule.matmul or pytest.fail("no matmul")
    assert (shape.gates, tiling.warpgroups, tiling.pair) == (4, True, "")
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(Order.BEHIND)), wanted)


CELLS = {(16, 32): [(F32, 1, False), (BF16, 2, False)], (32, 64): [(F32, 4, True), (BF16, 2, False)],
         (32, 32): [(F32, 2, False), (BF16, 2, True)], (64, 64): [(F32, 2, False)], (128, 64): [(F32, 1, False)]}
"""Tiles of a cell's matmul: types, blocks that share one, and whether the weights lie by columns."""


@pytest.mark.parametrize(("tile", "dtype", "sharers", "down"),
                         [(tile, *case) for tile in CELLS for case in CELLS[tile]], ids=str)
def test_gates_of_a_cell_are_finished_together(tile: tuple[int, int], dtype: DType, sharers: int, down: bool) -> None:
    """A block has the same columns of each gate. Rows and columns are cut off at the last tiles."""
    rows, columns = tile
    units = columns // 4 + 8
    graph = region("cell", lstm(dtype, rows + 8, 520, units, down))
    built = compiled_stitched(graph, template=f"*[GRID-CTA_{rows},GRID-{cluster_of(sharers)}CTA_{columns}];")
    kernel, = built.kernels
    assert (kernel.program.grid, kernel.program.cluster) == (2 * -(-units // (columns // 4)) * sharers, sharers)
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(Order.BEHIND)), wanted)
    check(graph, run_kernel_ir(graph, built, values), wanted)
    build_cubin(built)


@pytest.mark.parametrize(("tile", "sharers"), [((32, 48), 2), ((64, 96), 4)], ids=str)
def test_three_gates(tile: tuple[int, int], sharers: int) -> None:
    graph = region("cell", gru(F32, tile[0] + 8, 520, tile[1] // 3 + 8))
    template = f"*[GRID-CTA_{tile[0]},GRID-{cluster_of(sharers)}CTA_{tile[1]}];"
    kernel, = (built := compiled_stitched(graph, template=template)).kernels
    assert kernel.program.cluster == sharers
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(Order.BEHIND)), wanted)
    check(graph, run_kernel_ir(graph, built, values), wanted)


def test_a_result_that_is_needed_whole_is_not_cut() -> None:
    """It would have to be written at several places by one thread: the library multiplies."""
    product = B.dot(x("h", F32, 40, 72), x("w", F32, 72, 96))
    left, right = cut(product, 2)
    graph = region("whole", [product, B.mul(sigmoid(left), right)])
    built = compiled_stitched(graph)
    assert all(len(kernel.schedule.pattern.outputs) == 1 for kernel in built.kernels)
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(Order.BEHIND)), wanted)


def cluster_of(sharers: int) -> str:
    return f"CLUSTER_{sharers}-" if sharers > 1 else ""


SHARED = {F32: [(520, 32, 4), (1096, 16, 2), (1096, 64, 4)], BF16: [(528, 16, 2), (2056, 16, 4), (2056, 64, 2)]}
"""Terms, columns of a tile, and blocks that share it."""


@pytest.mark.parametrize("number", each_commit([0], range(3)))
@pytest.mark.parametrize("dtype", SHARED)
@pytest.mark.parametrize("down", [False, True])
def test_terms_shared_by_a_cluster(dtype: DType, number: int, down: bool) -> None:
    """Each block has terms of its own, the last ones fewer, sends its sums, and finishes a part of the tile."""
    k, columns, sharers = SHARED[dtype][number]
    b = x("b", dtype, columns + 8, k) if down else x("b", dtype, k, columns + 8)
    matmul = B.dot(x("a", dtype, 19, k), b, False, down)
    graph = region("shared", [silu(B.add(matmul, row(x("bias", dtype, columns + 8), matmul)))])
    built = compiled_stitched(graph, template=f"*[GRID-CTA_16,GRID-CLUSTER_{sharers}-CTA_{columns}];")
    assert [kernel.program.grid for kernel in built.kernels] == [4 * sharers]
    assert [kernel.program.cluster for kernel in built.kernels] == [sharers]
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(Order.BEHIND)), wanted)
    check(graph, run_kernel_ir(graph, built, values), wanted)
    build_cubin(built)


def test_a_tile_has_no_more_sharers_than_stages() -> None:
    """Such a template is refused, and the kernel is as without."""
    short = region("short", scaled_gelu(F32, 24, 136, 64))
    kernel, = compiled_stitched(short, template="*[GRID-CTA_16,GRID-CLUSTER_4-CTA_32];").kernels
    assert (kernel.program.cluster, kernel.schedule.origin) == (1, Origin.RULE)


def test_many_rows_of_tiles() -> None:
    """More than are gone through together, with some left over."""
    graph = region("many", scaled_gelu(BF16, 32 * 9 + 5, 32, 136))
    built = compiled_stitched(graph, BY_WARPS, template="*[GRID-CTA_32,GRID-CTA_64];")
    assert [kernel.program.grid for kernel in built.kernels] == [30]
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(Order.SHUFFLED)), wanted)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("seed", each_commit(range(4), range(12)))
def test_any_sizes(seed: int, aligned: bool) -> None:
    """No multiples of tiles or vectors, any operand stored either way, matrices in a batch or alone."""
    chance = random.Random(seed)
    m, k, n = (chance.choice((1, 8, 16)) * chance.randint(17, 24) for _ in range(3))
    m, k, n = (min(size, 150) for size in (m, k, n))
    batch = chance.choice(((), (2,), (2, 2)))
    dtype, across, down = chance.choice((F32, BF16, F16)), chance.random() < 0.5, chance.random() < 0.5
    a = x("a", dtype, *batch, *((k, m) if across else (m, k)))
    b = x("b", dtype, *batch, *((n, k) if down else (k, n)))
    if chance.random() < 0.5:
        a = B.mul(a, p.const(0.25, a))
    if chance.random() < 0.3:
        b = B.op(OpKind.TANH, b)
    product = B.dot(a, b, across, down)
    graph = region("any", [B.add(silu(product), x("y", dtype, *batch, m, n))])
    built = compiled_stitched(graph, aligned=aligned)
    assert [kernel.schedule.family for kernel in built.kernels] == [MATMUL.name]
    values, wanted = wanted_of(graph)
    check(graph, run_on_cpu(graph, built, values, Adversary(Order.BEHIND), aligned=aligned), wanted)
