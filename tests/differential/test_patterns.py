"""Hand-picked patterns: reference == compiled CPU code (== kernel IR where small), and the CUDA source compiles."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import check_all, random_values, region
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind

B = p.B
K = OpKind
F32 = DType.F32
FLOATS = (DType.F16, DType.BF16, DType.F32, DType.F64)


@cache
def x(*shape: int, dtype: DType = F32, name: str = "x") -> Node:
    return B.input(f"{name}:0", dtype, shape)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 3, 77), (5, 1003), (2, 5000), (1, 64), (77, 1)])
def test_softmax(shape: tuple[int, ...]) -> None:
    check_all(region("softmax", [p.softmax(x(*shape))]), interpret_cpu=shape == (3, 7), interpret_gpu=shape == (3, 7))


@pytest.mark.parametrize("columns", [1000, 1028, 1500, 2048, 3000, 12000, 80000])
def test_long_rows_of_every_schedule(columns: int) -> None:
    a = x(3, columns)
    check_all(region("rows", [p.softmax(a), B.arg_reduce(K.ARGMAX, a, 1, DType.I32)]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("aligned", [True, False])
def test_softmax_and_column_sum_by_dtype(dtype: DType, aligned: bool) -> None:
    a = x(6, 40, dtype=dtype)
    check_all(region("softmax", [p.softmax(a), B.sum(a, [0])]), aligned=aligned, interpret_cpu=True, interpret_gpu=True)


def test_log_softmax() -> None:
    check_all(region("log_softmax", [p.log_softmax(x(7, 33))]), interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("shape", [(4, 8), (64, 400), (3, 1003), (1, 1)])
@pytest.mark.parametrize("dtype", [F32, DType.F16])
def test_layernorm(shape: tuple[int, int], dtype: DType) -> None:
    gamma, beta = x(shape[1], name="gamma", dtype=dtype), x(shape[1], name="beta", dtype=dtype)
    check_all(region("layernorm", [p.layernorm(x(*shape, dtype=dtype), gamma, beta)]))


@pytest.mark.parametrize("shape", [(4, 8), (64, 400), (33, 77)])
def test_layernorm_backward(shape: tuple[int, int]) -> None:
    rows, small = (shape[0], 1), shape == (4, 8)
    outputs = p.layernorm_backward(x(*shape), x(*shape, name="dy"), x(shape[1], name="gamma"), x(*rows, name="mean"),
                                   x(*rows, name="rstd"))
    check_all(region("layernorm_backward", outputs), interpret_cpu=small, interpret_gpu=small)


def test_layernorm_then_softmax_with_both_live_out() -> None:
    y = p.layernorm(x(9, 40), x(40, name="gamma"), x(40, name="beta"))
    check_all(region("both", [y, p.softmax(y)]), interpret_gpu=True)


@pytest.mark.parametrize("shape", [(8, 4, 4, 16), (32, 33)])
def test_batchnorm_training(shape: tuple[int, ...]) -> None:
    c = shape[-1:]
    means, variances = B.variable("mean", F32, c), B.variable("var", F32, c)
    outputs, mean, variance = p.batchnorm_training(x(*shape), x(*c, name="gamma"), x(*c, name="beta"), means, variances)
    check_all(region("batchnorm", outputs, {"mean": mean, "var": variance}))


@pytest.mark.parametrize("gelu", [p.gelu_erf, p.gelu_tanh])
@pytest.mark.parametrize("size", [1, 7, 77, 1003, 5001])
def test_gelu(gelu: object, size: int) -> None:
    """The last size is two tasks of a CPU, of which the second is shorter."""
    check_all(region("gelu", [gelu(x(size))]), interpret_cpu=size in (1, 7, 5001), interpret_gpu=size < 10)  # type: ignore[operator]


@pytest.mark.parametrize("shape", [(5, 10), (64, 1000)])
def test_cross_entropy(shape: tuple[int, int]) -> None:
    labels = B.input("labels:0", DType.I64, shape[:1])
    check_all(region("cross_entropy", p.cross_entropy(x(*shape), labels)), interpret_cpu=shape[0] == 5,
              interpret_gpu=shape[0] == 5)


def test_adam_in_place_with_old_values_read_elsewhere() -> None:
    outputs, assigns = p.adam([(64, 128), (128,), (30, 17), (1,), ()])
    check_all(region("adam", outputs, assigns))


def test_adam_small_on_the_kernel_interpreter() -> None:
    outputs, assigns = p.adam([(4, 5), (5,)])
    check_all(region("adam", outputs, assigns), interpret_cpu=True, interpret_gpu=True)


def test_momentum() -> None:
    check_all(region("momentum", [], p.momentum([(7, 9), (9,), (3, 3, 4)])), interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("case", ["swap", "rotate", "old value live-out", "old value reduced", "copied and updated",
                                  "not read by its writer", "one value for two", "read after its new value"])
def test_variables_keep_their_meaning(case: str) -> None:
    v, w = B.variable("v", F32, (30,)), B.variable("w", F32, (30,))
    rotated = B.concat([B.slice(v, [1], [1], (29,)), B.slice(v, [0], [1], (1,))], 0)
    outputs, assigns = {
        "swap": ([], {"v": w, "w": v}), "rotate": ([], {"v": rotated}), "old value live-out": ([v], {"v": B.exp(v)}),
        "old value reduced": ([B.sum(v, [0])], {"v": B.exp(v)}), "copied and updated": ([], {"w": v, "v": B.exp(v)}),
        "not read by its writer": ([B.exp(v), B.sum(v, [0])], {"v": B.exp(w)}),
        "one value for two": ([], {"v": (y := B.exp(w)), "w": y}),
        "read after its new value": ([B.sub(z := B.neg(w), v)], {"v": z})}[case]
    check_all(region(case, outputs, assigns), interpret_cpu=True, interpret_gpu=True)


def test_an_update_waits_for_readers_in_other_kernels_of_its_round() -> None:
    v = B.variable("v", F32, (8, 12))
    new = B.transpose(B.exp(x(12, 8)), [1, 0])
    check_all(region("rounds", [B.sum(v, [0]), B.sum(v, [1]), B.transpose(v, [1, 0])], {"v": new}), interpret_gpu=True)


def test_many_column_sums_share_launches_within_shared_memory() -> None:
    sums = [B.sum(B.mul(x(64, 128, name=f"x{i}"), x(64, 128, name=f"y{i}")), [0]) for i in range(30)]
    check_all(region("bias gradients", sums))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("kind", [K.SUM, K.MAX])
def test_reductions_over_any_axes(axes: tuple[int, ...], kind: OpKind) -> None:
    check_all(region("reduce",
                     [B.reduce(kind, x(6, 5, 7), axes), B.reduce(kind, B.exp(x(6, 5, 7, name="y")), axes, True)]),
              interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("axes", [(0, 2), (0, 1, 3), (0, 2, 3), (3,), (1, 3)])
def test_reductions_across_axes_of_one(axes: tuple[int, ...]) -> None:
    check_all(region("reduce", [B.sum(x(24, 1, 48, 1), [a for a in axes if a < 4])]))


@pytest.mark.parametrize("shape", [(1000, 1000), (3, 40000), (40000, 3), (1, 30011), (2, 3, 8192)])
def test_two_stage_reductions(shape: tuple[int, ...]) -> None:
    a = x(*shape)
    everything = range(len(shape))
    check_all(region("split", [B.sum(a, everything), B.reduce(K.MAX, a, [0]), B.sum(B.square(a), [len(shape) - 1])]))


def test_half_sums_are_not_rounded_between_stages() -> None:
    a = x(65536, dtype=DType.F16)
    check_all(region("half", [B.mean(a, [0])]), {"x:0": np.full(65536, 0.25, np.float16)})


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_transposes(perm: tuple[int, ...]) -> None:
    a = x(3, 5, 8)
    check_all(region("transpose", [B.transpose(B.exp(a), perm), B.add(B.transpose(a, perm), B.scalar_like(1, a))]),
              interpret_cpu=True, interpret_gpu=True)


def test_movement_of_every_kind() -> None:
    a, ids = x(6, 7), B.input("ids:0", DType.I32, (5, 2))
    outputs = [B.exp(B.slice(a, [5, 1], [-1, 3], (6, 2))), B.pad(B.exp(a), B.scalar_like(3, a), [1, 2], [2, 0]),
               B.exp(B.concat([a, B.neg(a), B.square(a)], 0)), B.neg(B.concat([a, B.exp(a)], 1)),
               B.exp(B.op(K.GATHER, a, ids)), B.neg(B.reshape(a, (2, 3, 7))),
               B.exp(B.broadcast(x(7, name="r"), (6, 7)))]
    check_all(region("movement", outputs), interpret_cpu=True, interpret_gpu=True)


def test_one_hot_and_embedding_gradient() -> None:
    ids = B.input("ids:0", DType.I32, (9,))
    hot = p.one_hot(ids, 4, F32)
    spread = B.mul(B.reshape(hot, (9, 4, 1)), B.reshape(x(9, 5), (9, 1, 5)))
    check_all(region("one_hot", [hot, B.sum(spread, [0])]), interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_cumsum(exclusive: bool, reverse: bool) -> None:
    a = x(5, 13)
    outputs = [B.cumsum(B.exp(a), exclusive, reverse), B.exp(B.cumsum(a, exclusive, reverse)),
               B.cumsum(B.input("i:0", DType.I64, (77,)), exclusive, reverse)]
    check_all(region("cumsum", outputs), interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("dtype", [*FLOATS, DType.I32, DType.I64])
def test_arg_reductions_with_ties(dtype: DType) -> None:
    a = x(6, 9, dtype=dtype)
    values = {"x:0": np.random.default_rng(0).integers(0, 3, (6, 9)).astype(dtype.numpy)}
    outputs = [B.arg_reduce(kind, a, axis, DType.I64) for kind in (K.ARGMAX, K.ARGMIN) for axis in (0, 1)]
    check_all(region("arg", outputs), values, interpret_cpu=True, interpret_gpu=True)


def test_bool_reductions_and_select() -> None:
    a = x(5, 33)
    low = B.op(K.LESS, a, B.scalar_like(0, a))
    outputs = [B.reduce(K.ANY, low, [1]), B.reduce(K.ALL, low, [0]), low, B.select(low, a, x(33, name="y")),
               B.op(K.XOR, low, B.op(K.LOGICAL_NOT, low))]
    check_all(region("bool", outputs), interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("dtype", [DType.I32, DType.I64])
def test_integers(dtype: DType) -> None:
    a, b = x(4, 9, dtype=dtype), x(9, dtype=dtype, name="y")
    odd = B.op(K.OR, b, B.constant(1, dtype))
    outputs = [B.op(k, a, odd) for k in (K.DIV, K.FLOOR_DIV, K.FLOOR_MOD, K.TRUNC_MOD, K.ADD, K.SUB, K.MUL, K.AND,
                                         K.XOR)]
    outputs += [B.op(k, a) for k in (K.NEG, K.ABS, K.SIGN, K.INVERT)] + [B.sum(a, [1]), B.reduce(K.MIN, a, [0])]
    info = np.iinfo(dtype.numpy)
    values = {"x:0": np.random.default_rng(0).integers(-9, 9, (4, 9)).astype(dtype.numpy),
              "y:0": np.array([-3, -2, -1, 0, 1, 2, 3, 7, -7], dtype.numpy)}
    values["x:0"][0, :3] = info.min, info.max, -1
    check_all(region("integers", outputs), values, interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity(dtype: DType) -> None:
    a, b = x(3, 5, dtype=dtype), x(3, 5, dtype=dtype, name="y")
    nan, inf = np.nan, np.inf
    values = {"x:0": np.array([[1, nan, -inf, 0, -0.0], [inf, 1, 2, 3, -inf], [nan] * 5], dtype.numpy),
              "y:0": np.array([[nan, 1, 2, -inf, 0.0], [1, inf, nan, inf, -inf], [1, 2, 3, nan, 0]], dtype.numpy)}
    outputs = [B.op(k, a, b) for k in (K.ADD, K.SUB, K.MUL, K.DIV, K.MAXIMUM, K.MINIMUM, K.LESS, K.EQUAL, K.NOT_EQUAL)]
    outputs += [B.op(k, a) for k in (K.IS_NAN, K.IS_INF, K.IS_FINITE, K.SIGN, K.ABS, K.NEG, K.FLOOR)]
    outputs += [B.reduce(k, a, [axis]) for k in (K.MAX, K.MIN, K.SUM) for axis in (0, 1)]
    outputs += [B.arg_reduce(K.ARGMAX, a, 1, DType.I32), B.cast(B.op(K.IS_NAN, b), dtype), B.cast(a, DType.BOOL)]
    graph = region("nan", outputs)
    check_all(graph, values, interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_constant_tables_of_every_type(dtype: DType) -> None:
    table = B.constant([1.5, -2, np.inf, -np.inf, np.nan, 0.1], dtype)
    check_all(region("table", [B.add(x(4, 6, dtype=dtype), table)]), interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("dtype", [DType.I64, F32, DType.BOOL, DType.I32])
def test_constant_tables_that_end_in_zeros(dtype: DType) -> None:
    """gcc 12 takes {1, 1, 1, 0} for a broadcast of 1 where it copies a table by pieces."""
    tables = [B.constant([1] * ones + [0] * zeros, dtype) for ones,
              zeros in ((3, 1), (31, 1), (16, 16), (24, 8), (33, 3))]
    check_all(region("tables", tables))


def test_scalars_of_rank_0() -> None:
    a, b = x(), B.variable("v", F32, ())
    check_all(region("scalars", [B.exp(a), B.add(a, b), B.constant(3, F32)], {"v": B.mul(a, b)}), interpret_cpu=True,
              interpret_gpu=True)


def test_a_broadcast_of_axes_of_one() -> None:
    check_all(region("ones",
                     [B.add(x(4, 1, 6), x(1, 5, 1, name="y")), B.sum(x(4, 1, 6), [1]), B.exp(x(1, 1, name="z"))]),
              interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0,)])
def test_tensors_without_elements(shape: tuple[int, ...]) -> None:
    a, v = x(*shape), B.variable("v", F32, shape)
    outputs = [B.exp(a), B.sum(a, [0]), B.sum(a, range(len(shape))), B.reduce(K.MAX, a, [0]), B.exp(x(3, name="z")),
               p.softmax(a), B.concat([a, B.neg(a)], 0),
               B.pad(a, B.scalar_like(1, a), [1] * len(shape), [0] * len(shape))]
    check_all(region("empty", outputs, {"v": B.exp(v)}), interpret_cpu=True, interpret_gpu=True)


def test_outputs_that_need_no_kernel() -> None:
    a, v = x(5), B.variable("v", F32, (5,))
    check_all(region("copies", [a, v, B.constant(np.arange(20.0), F32), B.extent((3, 4), F32)], {"v": a}),
              interpret_cpu=True)


def test_casts() -> None:
    values = {"x:0": np.array([0.0, 1.75, -1.75, 3e9, -3e9, np.nan, np.inf], np.float32)}
    a, i = x(7), B.input("i:0", DType.I64, (7,))
    outputs = [B.cast(a, DType.I32), B.cast(a, DType.I64), B.cast(a, DType.BOOL), B.cast(a, DType.F64),
               B.cast(a, DType.BF16), B.cast(i, DType.I32), B.cast(i, F32), B.cast(i, DType.F16)]
    graph = region("casts", outputs)
    values["i:0"] = np.array([0, 1, -1, 5, -5, 2000, 1 << 40])
    check_all(graph, values)


def test_gather_out_of_range_is_reported_on_the_cpu() -> None:
    from tests.differential.runner import compiled, run_host
    from tf_stitch.device.spec import CPU
    from tf_stitch.errors import BuildError
    graph = region("gather", [B.exp(B.op(K.GATHER, x(4, 3), B.input("ids:0", DType.I32, (5,))))])
    values = random_values(graph) | {"ids:0": np.array([0, 1, 4, 2, 0], np.int32)}
    with pytest.raises(BuildError, match="out of range"):
        run_host(graph, compiled(graph, CPU), values)


def test_unaligned_buffers_use_no_vectors() -> None:
    check_all(region("unaligned", [p.softmax(x(4, 64)), B.sum(x(4, 64), [0])]), aligned=False, interpret_gpu=True)
