"""Matmuls of the native op against NumPy in float64: every epilogue, and matrices at any distances."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from numpy.lib.stride_tricks import as_strided

from tests.native.conftest import Regions
from tf_stitch.ir.activations import FUNCTIONS, Activation
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.matrices import MatrixLayout
from tf_stitch.ir.types import TensorType
from tf_stitch.libraries.gemm import Gemm
from tf_stitch.placement.executable import BufferRef, Executable, LibraryStep, encode
from tf_stitch.placement.executable_format import Space

GPU = pytest.param("/GPU:0", marks=[pytest.mark.gpu, pytest.mark.skipif(
    not tf.config.list_physical_devices("GPU"), reason="no GPU")])
TOLERANCE = {DType.F64: 1e-12, DType.F32: 2e-5, DType.F16: 4e-3, DType.BF16: 3e-2}

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def matrices(memory: Array, batch: int, rows: int, cols: int, layout: MatrixLayout) -> Array:
    """Where they lie: [groups, matrices of a group, rows, cols]."""
    within = (1, layout.stride) if layout.transposed else (layout.stride, 1)
    strides = (layout.step, layout.group_step, *within)
    return as_strided(memory.reshape(-1)[layout.offset:], (batch // layout.group, layout.group, rows, cols),
                      [8 * s for s in strides])


def exact(g: Gemm, a: Array, b: Array, *added: Array) -> Array:
    """The result's memory in float64."""
    terms = iter(added)
    left, right = matrices(a, g.batch, g.m, g.k, g.a), matrices(b, g.batch, g.k, g.n, g.b)
    value = left.reshape(-1, g.m, g.k) @ right.reshape(-1, g.k, g.n)
    value = value + next(terms) if g.bias else value
    value = value + next(terms).reshape(value.shape) if g.addend else value
    value = FUNCTIONS[g.activation](value) if g.activation else value
    out = np.zeros(g.operand_bytes()[-1] // g.dtype.size)
    written = matrices(out, g.batch, g.m, g.n, g.out)
    written[...] = value.reshape(written.shape)
    return out


@pytest.fixture(params=["/CPU:0", GPU])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    allowed = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    with tf.device(request.param):
        yield request.param
    tf.config.experimental.enable_tensor_float_32_execution(allowed)


def check(regions: Regions, gemm: Gemm, device: str) -> None:
    """Runs the matmul a few times: the third run on a GPU tries the library's proposals on these buffers."""
    random = np.random.default_rng(0)
    counts = [size // gemm.dtype.size for size in gemm.operand_bytes()]
    memory = [(random.standard_normal(n) / 4).astype(gemm.dtype.numpy) for n in counts[:-1]]
    want = exact(gemm, *(x.astype(np.float64) for x in memory))
    refs = [BufferRef(Space.INPUT, i) for i in range(len(memory))]
    e = Executable(tuple("abcd"[:len(memory)]), (), (TensorType(gemm.dtype, (counts[-1],)),), (), (),
                   (LibraryStep(gemm, (*refs, BufferRef(Space.OUTPUT, 0))),), None)
    region = regions.add(lambda key: encode(e, {}))
    for _ in range(4):
        [out] = regions.call(region, [tf.identity(x) for x in memory], types=[gemm.dtype.numpy])
        assert device.strip("/") in out.device.replace("device:", "")
        np.testing.assert_allclose(out.numpy().astype(np.float64), want, TOLERANCE[gemm.dtype],
                                   TOLERANCE[gemm.dtype], err_msg=str(gemm))
    assert regions.library.region_runs(region) == 4


def plain(dtype: DType, m: int, n: int, k: int, batch: int = 1) -> Gemm:
    return Gemm(dtype, batch, m, n, k, MatrixLayout(False, k, m * k), MatrixLayout(False, n, k * n),
                MatrixLayout(False, n, m * n))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
@pytest.mark.parametrize(("bias", "addend", "activation"),
                         list(itertools.product([False, True], [False, True], Activation)))
@pytest.mark.parametrize("sizes", [(200, 64, 96), (7, 33, 17)])
def test_epilogues(regions: Regions, device: str, sizes: tuple[int, int, int], dtype: DType, bias: bool, addend: bool,
                   activation: Activation) -> None:
    g = plain(dtype, *sizes)
    check(regions, Gemm(g.dtype, g.batch, g.m, g.n, g.k, g.a, g.b, g.out, bias, addend, activation), device)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16])
@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)))
def test_a_sum_with_transposed_operands_in_batches(regions: Regions, device: str, transposed: tuple[bool, bool],
                                                   dtype: DType) -> None:
    batch, m, n, k = 3, 70, 32, 24
    a = MatrixLayout(transposed[0], m if transposed[0] else k, m * k)
    b = MatrixLayout(transposed[1], k if transposed[1] else n, k * n)
    check(regions, Gemm(dtype, batch, m, n, k, a, b, MatrixLayout(False, n, m * n), addend=True), device)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 70, 45), (1, 3, 130), (1, 500, 2), (5, 90, 3000), (130, 9, 17)])
def test_halves_on_a_cpu(regions: Regions, dtype: DType, transposed: bool, m: int, n: int, k: int) -> None:
    """One row, whose matrix is read as it lies; several, for whom columns become float32 a few at a time. Sizes that no
    vectors divide, and more terms than a few columns may have."""
    g = plain(dtype, m, n, k)
    b = MatrixLayout(transposed, k if transposed else n, k * n)
    with tf.device("/CPU:0"):
        check(regions, Gemm(dtype, 1, m, n, k, g.a, b, g.out, bias=True, addend=True), "/CPU:0")


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16])
@pytest.mark.parametrize(("n", "k", "transposed"), [(777, 1030, False), (777, 1030, True), (40, 20001, False),
                                                    (20001, 40, False)])
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("m", [1, 3])
def test_rows_by_matrices_that_no_cache_keeps(regions: Regions, dtype: DType, m: int, n: int, k: int, transposed: bool,
                                              scattered: bool) -> None:
    """In pieces of their terms, or of columns; also where terms of a row do not lie side by side."""
    a = MatrixLayout(scattered, 5 if scattered else k + 1, 5 * (k + 1))
    b = MatrixLayout(transposed, k if transposed else n, k * n)
    with tf.device("/CPU:0"):
        check(regions, Gemm(dtype, 2, m, n, k, a, b, MatrixLayout(False, n, m * n), bias=True, addend=True,
                            activation=Activation.RELU), "/CPU:0")


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
@pytest.mark.parametrize("m", [1, 3])
def test_sums_of_halves_are_rounded_once(regions: Regions, dtype: DType, m: int) -> None:
    """Ones, more than a half type can count: each further one would be lost."""
    g = plain(dtype, m, 40, 5000)
    ones = [np.ones(count, dtype.numpy) for count in (m * g.k, g.k * g.n)]
    refs = BufferRef(Space.INPUT, 0), BufferRef(Space.INPUT, 1), BufferRef(Space.OUTPUT, 0)
    e = Executable(("a", "b"), (), (TensorType(dtype, (m * g.n,)),), (), (), (LibraryStep(g, refs),), None)
    region = regions.add(lambda key: encode(e, {}))
    with tf.device("/CPU:0"):
        [out] = regions.call(region, [tf.identity(x) for x in ones], types=[dtype.numpy])
    np.testing.assert_array_equal(out.numpy(), np.full(m * g.n, 5000).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_heads_that_lie_side_by_side(regions: Regions, device: str, dtype: DType) -> None:
    """Attention of one sequence: queries, keys, values and results are [length, heads, size] in memory."""
    heads, length, size = 4, 40, 16
    side = MatrixLayout(False, heads * size, size)
    scores = Gemm(dtype, heads, length, length, size, side, MatrixLayout(True, heads * size, size),
                  MatrixLayout(False, length, length * length))
    mixed = Gemm(dtype, heads, length, size, length, MatrixLayout(False, length, length * length), side, side)
    check(regions, scores, device)
    check(regions, mixed, device)


HEADS = 4  # of each of 3 sequences, whose caches hold keys and values of 2 layers


def of_sequences(m: int, depth: int, length: int, dtype: DType, cached: bool) -> tuple[Gemm, Gemm]:
    """Scores and weighted values of m queries: queries and results are [sequences, m, heads, depth], keys and values
    [sequences, length, heads, depth], or `cached` the second layer of [sequences, layers, 2, length, heads, depth]."""
    row, one = HEADS * depth, HEADS * depth * length
    at = MatrixLayout(False, row, m * row, HEADS, depth)
    keys = MatrixLayout(True, row, one, HEADS, depth)
    if cached:
        keys = MatrixLayout(True, row, 4 * one, HEADS, depth, 2 * one)
    values = MatrixLayout(False, row, keys.step, HEADS, depth, keys.offset + one if cached else 0)
    scores = MatrixLayout(False, length, m * length)
    return (Gemm(dtype, 3 * HEADS, m, length, depth, at, keys, scores),
            Gemm(dtype, 3 * HEADS, m, depth, length, scores, values, at))


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("m", [1, 7, 70])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16])
def test_heads_of_several_sequences_on_a_cpu(regions: Regions, dtype: DType, m: int, cached: bool) -> None:
    with tf.device("/CPU:0"):
        for gemm in of_sequences(m, 20, 33, dtype, cached):
            check(regions, gemm, "/CPU:0")


@pytest.mark.parametrize("m", [1, 7, 70])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16])
def test_where_matrices_lie_changes_no_bit(regions: Regions, dtype: DType, m: int) -> None:
    def run(g: Gemm, memory: list[Array]) -> Array:
        refs = BufferRef(Space.INPUT, 0), BufferRef(Space.INPUT, 1), BufferRef(Space.OUTPUT, 0)
        count = g.operand_bytes()[-1] // g.dtype.size
        e = Executable(("a", "b"), (), (TensorType(g.dtype, (count,)),), (), (), (LibraryStep(g, refs),), None)
        with tf.device("/CPU:0"):
            [out] = regions.call(regions.add(lambda key: encode(e, {})), [tf.identity(x) for x in memory],
                                 types=[g.dtype.numpy])
        return out.numpy().astype(np.float64)

    for g in of_sequences(m, 20, 33, dtype, cached=True):
        memory = [np.random.default_rng(i).standard_normal(size // g.dtype.size).astype(g.dtype.numpy)
                  for i, size in enumerate(g.operand_bytes()[:-1])]
        wide = [x.astype(np.float64) for x in memory]
        left, right = matrices(wide[0], g.batch, g.m, g.k, g.a), matrices(wide[1], g.batch, g.k, g.n, g.b)
        copies = [left, np.swapaxes(right, -1, -2) if g.b.transposed else right]
        got = matrices(run(g, memory), g.batch, g.m, g.n, g.out)
        dense = plain(g.dtype, g.m, g.n, g.k, g.batch)
        dense = replace(dense, b=MatrixLayout(True, g.k, g.k * g.n)) if g.b.transposed else dense
        want = run(dense, [np.ascontiguousarray(x).astype(g.dtype.numpy).reshape(-1) for x in copies])
        np.testing.assert_array_equal(got.reshape(-1), want)


@pytest.mark.parametrize("wrong", [{"group": 0}, {"group": 1 << 31}, {"group_step": -1}, {"offset": -1},
                                   {"offset": 1 << 49}, {"transposed": True}])
def test_words_out_of_range_are_an_error(regions: Regions, wrong: dict[str, int]) -> None:
    g = plain(DType.F32, 2, 32, 32)
    gemm = replace(g, out=replace(g.out, **wrong))
    refs = BufferRef(Space.INPUT, 0), BufferRef(Space.INPUT, 1), BufferRef(Space.OUTPUT, 0)
    e = Executable(("a", "b"), (), (TensorType(DType.F32, (64,)),), (), (), (LibraryStep(gemm, refs),), None)
    region = regions.add(lambda key: encode(e, {}))
    with tf.device("/CPU:0"), pytest.raises(tf.errors.InternalError, match="bad executable"):
        regions.call(region, [tf.ones(64), tf.ones((32, 32))])


@pytest.mark.parametrize("activation", [Activation.RELU, Activation.GELU])
def test_activations_of_nan_on_a_cpu(regions: Regions, activation: Activation) -> None:
    """cuBLASLt's relu is said to give 0; ours on a CPU hands a NaN on, as TensorFlow's does."""
    g = plain(DType.F32, 2, 32, 32)
    gemm = Gemm(g.dtype, 1, g.m, g.n, g.k, g.a, g.b, g.out, activation=activation)
    refs = BufferRef(Space.INPUT, 0), BufferRef(Space.INPUT, 1), BufferRef(Space.OUTPUT, 0)
    e = Executable(("a", "b"), (), (TensorType(DType.F32, (2, 32)),), (), (), (LibraryStep(gemm, refs),), None)
    region = regions.add(lambda key: encode(e, {}))
    with tf.device("/CPU:0"):
        x = np.ones((2, 32), np.float32)
        x[1, 5] = np.nan
        [out] = regions.call(region, [tf.identity(x), tf.ones((32, 32))])
    assert np.isnan(out.numpy()).tolist() == [[False] * 32, [True] * 32]
