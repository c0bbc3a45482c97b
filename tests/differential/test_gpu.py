"""The same graphs on a GPU, where there is one: CuPy loads the cubin and launches the executable's steps."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.attention_steps import Step, all_copies, causal, dropped, masked, padding
from tests.differential.generator import make_case
from tests.differential.gpu_run import run_gpu
from tests.differential.runner import compare, compiled, random_values, reference, region
from tests.emit.test_attention import ERROR
from tests.emit.test_attention import GRAPHS as ATTENTIONS
from tests.emit.test_attention_gradient import STEPS
from tests.emit.test_matmul import BY_WARPS, CELLS, cluster_of, lstm, pairs
from tests.emit.test_matmul import MAKERS as MATMULS
from tests.emit.test_matmul import check as check_matmul
from tests.schedule.long_rows import chain, staged_to_the_end
from tests.support.numbers import set_numbers
from tests.support.stitched_matmuls import compiled_stitched, scaled_gelu
from tf_stitch.device.spec import H200, DeviceSpec
from tf_stitch.families.matmul_tiles import FEW_ROWS, TILES
from tf_stitch.families.warpgroup_tiles import PAIRED, WARPGROUP_TILES
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.cost import requested_bytes, shared_bytes
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.passes import private_copies
from tf_stitch.placement.executable import DeviceLaunch
from tf_stitch.runtime.device_run import gpu_is_here

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_is_here(), reason="no GPU")]
B = p.B


def named(parameter: object) -> str:
    """Shapes as 64x500000: names by which tools/sanitize_gpu.py leaves tests out."""
    return "x".join(map(str, parameter)) if isinstance(parameter, tuple) else str(parameter)


def check(graph: TensorGraph, values: dict[str, object] | None = None, aligned: bool = True) -> None:
    inputs = random_values(graph) if values is None else values
    want, allowed = reference(graph, inputs)  # type: ignore[arg-type]
    got = run_gpu(graph, compiled(graph, H200, aligned, "greedy"), inputs, aligned=aligned)  # type: ignore[arg-type]
    compare(graph, got, want, allowed, "H200")


@pytest.mark.parametrize("columns", [1, 7, 33, 128, 1000, 1028, 1500, 2048, 3000, 4096, 12000, 20000, 40000, 100000])
def test_rows_of_every_length(columns: int) -> None:
    x = B.input("x:0", DType.F32, (37, columns))
    check(region("rows",
                 [p.softmax(x), B.arg_reduce(OpKind.ARGMAX, x, 1, DType.I64),
                  B.arg_reduce(OpKind.ARGMIN, x, 1, DType.I32)]))


def batchnorm(x: Node) -> list[Node]:
    """Training: outputs, and the batch's mean and variance."""
    per_channel = [B.input(f"{name}:0", DType.F32, x.type.dims[-1:]) for name in ("gamma", "beta", "mean", "variance")]
    return p.batchnorm_training(x, *per_channel)[0]


@pytest.mark.parametrize(("name", "shape"), [
    ("softmax", (1, 200_000)), ("softmax", (1, 3_000_000)), ("softmax", (3, 1_000_003)), ("softmax", (64, 30_000)),
    ("softmax", (1, 100_001)),  # an element for each thread
    ("softmax", (64, 500_000)), ("sum", (1, 5_000_000)), ("sum", (64, 200_000)), ("batchnorm", (3000, 64)),
    ("batchnorm", (20_000, 256))], ids=named)
def test_blocks_that_wait_for_each_other_at_grid_barriers(name: str, shape: tuple[int, int]) -> None:
    """One cooperative launch; run again and again on the same counter."""
    groups = {"softmax": lambda x: [p.softmax(x)], "sum": lambda x: [B.sum(x, [1])], "batchnorm": batchnorm}
    x = B.input("x:0", DType.F32, shape)
    graph = region("groups", groups[name](x))
    values = random_values(graph)
    built = compiled(graph, H200, solver="greedy")
    launches = [s for s in built.executable.steps if isinstance(s, DeviceLaunch)]
    assert [s.cooperative for s in launches] == [True]
    want, allowed = reference(graph, values)
    compare(graph, run_gpu(graph, built, values, runs=5), want, allowed, "H200")


@pytest.mark.parametrize("shape", [(200, 20_000), (300, 100_000), (90, 250_000), (5, 16_389), (130, 70_001)],
                         ids=named)
def test_rows_that_blocks_share(shape: tuple[int, int]) -> None:
    x = B.input("x:0", DType.F32, shape)
    per_column = [B.input(f"{name}:0", DType.F32, shape[1:]) for name in ("gamma", "beta")]
    check(region("rows", [p.softmax(x), p.layernorm(x, *per_column)]))


@pytest.mark.parametrize("shape", [(8, 100), (8, 20_000), (40, 500_000)], ids=named)
def test_infinities_and_what_is_no_number(shape: tuple[int, int]) -> None:
    x = B.input("x:0", DType.F32, shape)
    graph = region("rows", [p.softmax(x), B.reduce(OpKind.MAX, x, [1]), B.reduce(OpKind.MIN, x, [1])])
    values = random_values(graph)
    rows = values["x:0"]
    rows[1, 7], rows[2], rows[3, 9], rows[4, :50], rows[5, 3] = np.nan, -np.inf, np.inf, -np.inf, -np.nan
    check(graph, values)  # type: ignore[arg-type]


@pytest.mark.parametrize(("graph", "shares"), [
    (chain(4, 10_001, 3), True), (chain(300, 13_000, 3), True), (chain(600, 15_000, 2), True),
    (staged_to_the_end(600, 16_001, 3), False)])
def test_arrays_that_share_memory(graph: TensorGraph, shares: bool) -> None:
    """What phases hand on would not fit a block; what is alive at one time does, or all but a few values."""
    built = compiled(graph, H200, solver="greedy")
    shared, requested = (max(size(k.program) for k in built.kernels) for size in (shared_bytes, requested_bytes))
    assert 0 < shared <= H200.shared_bytes
    assert (shared < requested) is shares
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_gpu(graph, built, values, runs=3), want, allowed, "H200")


def test_values_that_groups_hand_on_share_memory() -> None:
    """A kernel of many groups whose values are in fewer places of the arena than there are values."""
    graph = chain(1, 8193, 2)
    built = compiled(graph, H200)
    buffers = [b for kernel in built.kernels for b in kernel.program.buffers if b.mode is Mode.SCRATCH]
    assert 0 < built.executable.arena_bytes < sum(b.size * b.dtype.size for b in buffers) / 2
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_gpu(graph, built, values, runs=20), want, allowed, "H200")


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32, DType.F64])
def test_columns_and_rows_by_dtype(dtype: DType) -> None:
    x = B.input("x:0", dtype, (300, 136))
    check(region("mixed", [p.softmax(x), B.sum(x, [0]), B.reduce(OpKind.MAX, x, [0])]))


def test_optimizer_and_normalisation() -> None:
    outputs, assigns = p.adam([(64, 128), (128,), (30, 17), (1,), ()])
    check(region("adam", outputs, assigns))
    x = B.input("x:0", DType.F32, (64, 400))
    check(region("layernorm", p.layernorm_backward(
        x, B.input("dy:0", DType.F32, (64, 400)), B.input("gamma:0", DType.F32, (400,)),
        B.input("mean:0", DType.F32, (64, 1)), B.input("rstd:0", DType.F32, (64, 1)))))


@pytest.mark.parametrize("kind", [OpKind.MAX, OpKind.MIN, OpKind.ARGMAX, OpKind.ARGMIN])
def test_extremes_of_negated_integers(kind: OpKind) -> None:
    """ptxas folds the negation into a three-operand maximum, wrongly."""
    for i, shape in enumerate([(4,), (5, 64, 3), (7, 8), (33, 1000)]):
        x = B.input(f"x{i}:0", DType.I32, shape)
        values = {f"x{i}:0": np.random.default_rng(0).integers(-20, 20, shape).astype(np.int32)}
        for axis in range(len(shape)):
            arg = kind in (OpKind.ARGMAX, OpKind.ARGMIN)
            node = B.arg_reduce(kind, B.neg(x), axis, DType.I32) if arg else B.reduce(kind, B.neg(x), [axis])
            check(region("negated", [node, B.maximum(B.maximum(B.neg(x), x), B.neg(B.neg(x)))]), values)


def test_many_column_sums() -> None:
    pairs = [(B.input(f"x{i}:0", DType.F32, (64, 128)), B.input(f"y{i}:0", DType.F32, (64, 128))) for i in range(30)]
    check(region("bias gradients", [B.sum(B.mul(x, y), [0]) for x, y in pairs]))


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed: int) -> None:
    case = make_case(random.Random(seed), 14, 3000)
    check(case.graph, case.values, aligned=seed % 2 == 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F16])
@pytest.mark.parametrize("name", [name for name in MATMULS if name != "swiglu"])  # CuPy calls no library here
def test_matmul(name: str, dtype: DType) -> None:
    graph = region(name, MATMULS[name](dtype))
    values = random_values(graph)
    wanted, _ = reference(graph, values)
    got = [run_gpu(graph, compiled_stitched(graph), values) for _ in range(2)]
    check_matmul(graph, got[0], wanted)
    for key, _ in graph.outputs:
        np.testing.assert_array_equal(got[0][key], got[1][key])


@pytest.mark.parametrize("tile", TILES, ids=named)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_matmul_by_every_tile(tile: tuple[int, int], dtype: DType) -> None:
    check_tile(tile, dtype, BY_WARPS)


def check_tile(tile: tuple[int, int], dtype: DType, device: DeviceSpec) -> None:
    rows, columns = tile
    graph = region("tiles", scaled_gelu(dtype, 9 * rows + 24, 328, 2 * columns + 8))
    values = random_values(graph)
    built = compiled_stitched(graph, device, template=f"*[GRID-CTA_{rows},GRID-CTA_{columns}];")
    check_matmul(graph, run_gpu(graph, built, values), reference(graph, values)[0])


@pytest.mark.parametrize("tile", WARPGROUP_TILES, ids=named)
def test_matmul_by_every_tile_of_warpgroups(tile: tuple[int, int]) -> None:
    check_tile(tile, DType.BF16, H200)


@pytest.mark.parametrize("tile", PAIRED, ids=named)
@pytest.mark.parametrize(("across", "down"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("case", [(DType.BF16, 2056, 200, 1160), (DType.F16, 4096, 768, 1152),
                                  (DType.BF16, 264, 72, 384)], ids=named)
def test_matmul_of_pairs(tile: tuple[int, int], across: bool, down: bool, case: tuple[DType, int, int, int]) -> None:
    """Several tiles a block, the last ones cut off, an odd number of them, operands stored either way."""
    graph = pairs(*case, across, down)
    values = random_values(graph)
    built = compiled_stitched(graph, template=f"*[GRID-CTA_{tile[0]},GRID-CTA_{tile[1]}];")
    assert built.kernels[0].program.cluster == 2
    got = [run_gpu(graph, built, values) for _ in range(2)]
    check_matmul(graph, got[0], reference(graph, values)[0])
    for key, _ in graph.outputs:
        np.testing.assert_array_equal(got[0][key], got[1][key])


@pytest.mark.parametrize("tile", FEW_ROWS, ids=named)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_matmul_of_few_rows_by_every_tile(tile: tuple[int, int], dtype: DType) -> None:
    rows, columns = tile
    graph = region("tiles", scaled_gelu(dtype, rows + 8, 328, 2 * columns + 8))
    values = random_values(graph)
    built = compiled_stitched(graph, template=f"*[GRID-CTA_{rows},GRID-CTA_{columns}];")
    check_matmul(graph, run_gpu(graph, built, values), reference(graph, values)[0])


@pytest.mark.parametrize(("tile", "dtype", "sharers", "down"),
                         [(tile, *case) for tile in CELLS for case in CELLS[tile]], ids=named)
def test_cell_behind_its_matmul(tile: tuple[int, int], dtype: DType, sharers: int, down: bool) -> None:
    rows, columns = tile
    graph = region("cell", lstm(dtype, rows + 8, 520, columns // 4 + 8, down))
    values = random_values(graph)
    built = compiled_stitched(graph, template=f"*[GRID-CTA_{rows},GRID-{cluster_of(sharers)}CTA_{columns}];")
    got = [run_gpu(graph, built, values) for _ in range(2)]
    check_matmul(graph, got[0], reference(graph, values)[0])
    for key, _ in graph.outputs:
        np.testing.assert_array_equal(got[0][key], got[1][key])


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_numbers(monkeypatch, H200, "choices", attention_times=0.0)  # a kernel is chosen wherever there can be one
    graph = ATTENTIONS[name]
    values = random_values(graph)
    want, _ = reference(graph, values)
    [(key, node)] = graph.outputs
    built = compiled(graph, H200)
    got = [run_gpu(graph, built, values)[key] for _ in range(2)]
    np.testing.assert_allclose(got[0].astype(np.float64), want[key], rtol=0, atol=ERROR[node.type.dtype])
    np.testing.assert_array_equal(got[0], got[1])


LARGE = {
    "half a tile more": Step(DType.BF16, batch=3, queries=208, keys=208, heads=3, size=64, score=masked),
    "few queries": Step(DType.F16, batch=8, queries=40, keys=200, heads=4, size=96, width=64, score=padding),
    "float32": Step(batch=2, queries=197, keys=197, heads=3, size=64),
    "wide float32": Step(batch=1, queries=130, keys=70, heads=2, size=128, score=padding),
    "large causal": Step(DType.BF16, batch=2, queries=320, keys=320, heads=4, size=64, score=causal()),
    "float32, causal": Step(batch=2, queries=197, keys=197, heads=3, size=64, score=causal()),
    "wide and causal": Step(DType.BF16, batch=2, queries=256, keys=256, heads=3, size=128, score=causal()),
    "large dropout": Step(DType.BF16, batch=2, queries=256, keys=256, heads=4, size=64, weight=dropped)}


@pytest.mark.parametrize("name", [*STEPS, *LARGE])
def test_gradients_of_attention(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the same bits, too."""
    monkeypatch.setattr(private_copies, "attention_copies", all_copies)
    step = {**STEPS, **LARGE}[name]
    graph = step.graph()
    values = random_values(graph)
    want, _ = reference(graph, values)
    built = compiled(graph, H200)
    got = [run_gpu(graph, built, values) for _ in range(2)]
    for key, expected in want.items():
        error = np.abs(got[0][key].astype(np.float64) - expected)
        assert np.max(error) <= ERROR[step.dtype] * max(1.0, np.max(np.abs(expected))), key
        np.testing.assert_array_equal(got[0][key], got[1][key])
