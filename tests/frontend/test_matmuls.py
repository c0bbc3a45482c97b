"""Matmuls against TensorFlow, and what stays a TensorFlow op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_library

from tests.frontend.check import check, trace, types_of_graph
from tests.frontend.values import normal
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret

RAW = tf.raw_ops


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("batch", [(), (2,), (3, 2)])
def test_matmuls(batch: tuple[int, ...], flags: tuple[bool, bool]) -> None:
    a = normal((*batch, *((4, 3) if flags[0] else (3, 4))))
    b = normal((*batch, *((5, 4) if flags[1] else (4, 5))), seed=1)
    check(lambda x, y: tf.matmul(x, y, transpose_a=flags[0], transpose_b=flags[1]), a, b)


@pytest.mark.parametrize(("left", "right"), [((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((4, 3, 4), (1, 4, 5)),
                                             ((3, 4), (2, 4, 5))])
def test_leading_axes_broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    check(tf.matmul, normal(left), normal(right, seed=1))


@pytest.mark.parametrize(("equation", "left", "right"), [
    ("abc,cd->abd", (2, 3, 4), (4, 5)), ("abc,cde->abde", (2, 3, 4), (4, 5, 6)),
    ("abde,cde->abc", (2, 3, 4, 5), (6, 4, 5)),
    ("abc,abde->cde", (2, 3, 4), (2, 3, 5, 6)), ("btnh,bsnh->bnts", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("bnts,bsnh->btnh", (2, 3, 4, 5), (2, 5, 3, 6)), ("ab,cd->acbd", (2, 3), (4, 5)), ("ab,ab->", (2, 3), (2, 3)),
    ("...ij,...jk->...ik", (2, 3, 4, 5), (2, 3, 5, 6)), ("...ij,...jk->...ik", (4, 5), (5, 6)),
    ("...j,jk->...k", (2, 3, 4), (4, 5)), ("jk,...j->k...", (4, 5), (2, 3, 4)),
    ("b...d,cd->bc...", (2, 3, 6, 4), (5, 4)), ("...k,jk...->...j", (2, 3, 4), (5, 4)),
    ("...k,...j->jk...", (2, 3, 4), (2, 3, 5)), ("ij,jk->...ik", (2, 3), (3, 4)), ("a...,a...->...", (3, 4), (3, 4)),
    ("bnd,zncde->bnce", (2, 3, 4), (1, 3, 5, 4, 2)), ("bnce,zncde->bnd", (2, 3, 5, 2), (1, 3, 5, 4, 2)),
    ("ab,cd->", (2, 3), (4, 5)), ("abc,bd->ad", (2, 3, 4), (3, 5)), ("ab,c->c", (3, 3), (3,)),
    ("ab,b->a", (2, 3), (3,)), ("ab,ab->a", (2, 3), (2, 3)), ("ab,ac->cb", (2, 3), (2, 4)), ("i,j->ji", (2,), (3,))])
def test_einsum(equation: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    check(lambda x, y: RAW.Einsum(inputs=[x, y], equation=equation), normal(left), normal(right, seed=1))


@pytest.mark.parametrize(("equation", "left", "right"), [
    ("aab,b->a", (3, 3, 3), (3,)), ("...ij,...jk->...ik", (1, 2, 3), (4, 3, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (6, 2, 4, 5)), ("ab...,b...->...", (3, 3, 2), (3, 1))])
def test_einsum_that_is_no_matmul_stays(equation: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    traced = trace(lambda x, y: RAW.Einsum(inputs=[x, y], equation=equation), tf.TensorSpec(left),
                   tf.TensorSpec(right))
    assert any("(Einsum)" in name and f"Einsum {equation}" in reason for name, reason in traced.opaque().items())


def test_einsum_of_an_ellipsis_whose_sizes_are_known_at_run_time() -> None:
    x, y = normal((2, 3, 4)), normal((2, 4, 5), seed=1)
    specs = [tf.TensorSpec((None, None, 4)), tf.TensorSpec((4, 5))]
    check(lambda x, w: tf.einsum("...j,jk->...k", x, w), x, y[0], specs=specs, graphs=False)
    specs = [tf.TensorSpec((2, None, 4)), tf.TensorSpec((2, 4, None))]
    check(lambda x, y: tf.einsum("...ij,...jk->...ik", x, y), x, y, specs=specs, graphs=False)


def test_einsum_says_which_ellipses_differ() -> None:
    specs = [tf.TensorSpec((1, 2, 3)), tf.TensorSpec((4, 3, 5))]
    [reason] = trace(lambda x, y: tf.einsum("...ij,...jk->...ik", x, y), *specs).opaque().values()
    assert reason == "Einsum ...ij,...jk->...ik with [1] and [4] for its ellipses"


def test_gradient_of_einsum_with_an_ellipsis() -> None:
    """TensorFlow writes "...k,jk...->...j" and "...k,...j->jk..." here, and sums the latter's ellipsis."""

    def gradients(x: tf.Tensor, w: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            loss = tf.reduce_sum(tf.einsum("...j,jk->...k", x, w) ** 2)
        return tape.gradient(loss, [x, w])

    check(gradients, normal((2, 3, 4)), normal((4, 5), seed=1))


@pytest.mark.parametrize(("activation", "function"), [
    ([], lambda y: y), (["Relu"], lambda y: np.maximum(y, 0)), (["Tanh"], np.tanh),
    (["Sigmoid"], lambda y: 1 / (1 + np.exp(-y)))])
def test_what_the_remapper_makes(activation: list[str], function: Callable[[Any], Any]) -> None:
    a, b, bias = normal((3, 4)), normal((4, 5), seed=1), normal((5,), seed=2)
    with tf.Graph().as_default() as graph:
        x, y, z = (tf.compat.v1.placeholder(tf.float32, v.shape, name=n)
                   for n, v in zip("xyz", (a, b, bias), strict=True))
        fused = op_def_library.apply_op("_FusedMatMul", a=x, b=y, args=[z], fused_ops=["BiasAdd", *activation],
                                        transpose_a=False, transpose_b=False, epsilon=1e-4, leakyrelu_alpha=0.2,
                                        name="fused")
    got = run_fused(graph, fused.name, {"x:0": a, "y:0": b, "z:0": bias})
    np.testing.assert_allclose(got, function(a @ b + bias), 1e-5, 1e-5)


@pytest.mark.parametrize("fused_ops", [["Mul"], ["Mul", "Add"]])
def test_what_the_remapper_makes_of_attention(fused_ops: list[str]) -> None:
    given = {"x:0": normal((2, 3, 1, 4)), "y:0": normal((2, 3, 5, 4), seed=1), "s:0": np.float32(0.5),
             "z:0": normal((2, 1, 1, 5), seed=2)}
    with tf.Graph().as_default() as graph:
        x, y, s, z = (tf.compat.v1.placeholder(tf.float32, v.shape, name=n[0]) for n, v in given.items())
        fused = op_def_library.apply_op("_MklFusedBatchMatMulV2", x=x, y=y, args=[s, z][:len(fused_ops)], adj_x=False,
                                        adj_y=True, fused_ops=fused_ops, epsilon=1e-4, leakyrelu_alpha=0.2,
                                        name="fused")
    want = given["x:0"] @ given["y:0"].swapaxes(-1, -2) * 0.5 + ("Add" in fused_ops) * given["z:0"]
    np.testing.assert_allclose(run_fused(graph, fused.name, given), want, 1e-5, 1e-5)


def run_fused(graph: tf.Graph, name: str, given: Mapping[str, Any]) -> Any:
    imported = import_graph(graph.as_graph_def(), types_of_graph(graph), library_on={"CPU": Matmuls.ALL})
    value = imported.value(name)
    assert value is not None
    return interpret(TensorGraph("fused", [("out", value)]), dict(given))["out"]


def test_symbolic_rows() -> None:
    specs = [tf.TensorSpec((None, None, 4)), tf.TensorSpec((4, 5))]
    check(tf.matmul, normal((2, 3, 4)), normal((4, 5), seed=1), specs=specs, graphs=False)


@pytest.mark.parametrize("dtype", [np.float16, tf.bfloat16.as_numpy_dtype, np.float64])
def test_types(dtype: object) -> None:
    check(tf.matmul, normal((3, 4)).astype(dtype), normal((4, 5), seed=1).astype(dtype))


@pytest.mark.parametrize(("left", "right", "inside"), [
    ((1, None), (None, 4000), True), ((1, 100), (100, 4000), True), ((64, 128), (128, 128), True),
    ((4096, 1), (1, 200), False),
    ((256, 256), (256, 256), False), ((32, 512), (512, 512), True), ((32, 512), (512, 513), False),
    ((33, 512), (512, 512), False),
    ((4, 512), (512, 1024), False), ((None, 8), (8, 8), False)])
def test_small_matmuls(left: tuple[int | None, ...], right: tuple[int | None, ...], inside: bool) -> None:
    """Of sizes known at run time only, a matmul of a vector is small, one of matrices is not."""
    check_small(tf.matmul, left, right, inside)


@pytest.mark.parametrize(("left", "right", "inside"), [
    ((64, 2048), (2048, 2048), True), ((65, 2048), (2048, 2048), False), ((64, 512), (512, 512), False),
    ((4, 2048), (2048, 2048), False)])
def test_matmuls_that_tensorflow_would_transpose(left: tuple[int, ...], right: tuple[int, ...], inside: bool) -> None:
    check_small(lambda a, b: tf.matmul(a, b, transpose_b=True), left, right, inside)


@pytest.mark.parametrize(("dtype", "rows", "inside"), [
    (tf.float16, 8, True), (tf.bfloat16, 8, True), (tf.float16, 32, True), (tf.bfloat16, 32, False)])
def test_small_matmuls_of_halves(dtype: tf.DType, rows: int, inside: bool) -> None:
    """oneDNN multiplies bfloat16 faster than float32, which counts where there is more to do than in an op anyway."""
    check_small(tf.matmul, (rows, 256), (256, 512), inside, dtype)


def check_small(matmul: Callable[..., Any], left: Sequence[int | None], right: Sequence[int | None],
                inside: bool, dtype: tf.DType = tf.float32) -> None:
    concrete = tf.function(matmul).get_concrete_function(tf.TensorSpec(left, dtype), tf.TensorSpec(right, dtype))
    imported = import_graph(concrete.graph.as_graph_def(), types_of_graph(concrete.graph), {"CPU": Matmuls.SMALL})
    [reason] = [n.reason for n in imported.nodes.values() if "MatMul" in n.op]
    assert reason is None if inside else "too large for a region" in str(reason)


def test_matmuls_stay_where_regions_hold_no_library_calls() -> None:
    concrete = tf.function(tf.matmul).get_concrete_function(tf.TensorSpec((2, 3)), tf.TensorSpec((3, 4)))
    imported = import_graph(concrete.graph.as_graph_def(), types_of_graph(concrete.graph))
    assert "MatMul is a library call" in {n.reason for n in imported.nodes.values()}
