"""Random numbers inside regions are TensorFlow's, bit for bit, at every level; on GPUs alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.differential.runner import build_cubin, compiled, run_host, run_kernel_ir
from tests.frontend.check import types_of_graph
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.frontend.tensorflow.exporter import run_with_tensorflow
from tf_stitch.frontend.tensorflow.importer import ImportedGraph, import_graph
from tf_stitch.frontend.tensorflow.legalize.random import box_muller, unit_interval
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.ir.bind import bind
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.text_parser import parse_graph

RAW = tf.raw_ops
COUNTERS = [(0, 0), (5, 7), ((1 << 32) - 2, 1), ((1 << 64) - 2, 3), ((1 << 64) - 3, (1 << 64) - 1),
            (1 << 63, (1 << 32) - 1)]
UINT64, SEED = tf.TensorSpec([1], tf.uint64), tf.TensorSpec([2], tf.int32)


def imported(function: Any, *specs: tf.TensorSpec, device: str = "/device:GPU:0") -> tuple[Any, ImportedGraph]:
    """A traced function, and its graph as if it were placed on a device."""
    graph = tf.function(function).get_concrete_function(*specs).graph
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        node.device = device
    return graph, import_graph(graph_def, types_of_graph(graph), library_on={"GPU": Matmuls.ALL})


def as_region(function: Any, arrays: Sequence[Any], specs: Sequence[tf.TensorSpec] | None = None
              ) -> tuple[TensorGraph, dict[str, Any]]:
    """The IR of a function's results, and its inputs' values."""
    specs = specs or [tf.TensorSpec(a.shape, a.dtype) for a in arrays]
    graph, found = imported(function, *specs)
    values = dict(zip((t.name for t in graph.inputs), arrays, strict=True))
    outputs = [(f"o{i}", found.value(t.name)) for i, t in enumerate(graph.outputs)]
    why = {n.name: n.reason for n in found.nodes.values()}
    region = TensorGraph("random", [(key, node) for key, node in outputs if node is not None])
    keys = {str(n.attrs.key) for n in region.inputs()}  # type: ignore[attr-defined]
    assert keys <= values.keys(), why
    return bind(region, {k: values[k].shape for k in keys}), {k: values[k] for k in keys}


def uniform(shape: Any, dtype: Any = tf.float32, alg: int = 1) -> Any:
    return lambda key, counter: RAW.StatelessRandomUniformV2(shape=shape, key=key, counter=counter, alg=alg,
                                                             dtype=dtype)


def key_and_counter(counter: tuple[int, int], key: int = 0xFEDCBA9876543210) -> list[Any]:
    return [np.array([key], np.uint64), np.array(counter, np.uint64)]


def same_bits(got: Any, want: Any) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (4, 8), (2, 3, 11)])
def test_uniform_numbers_by_definition(counter: tuple[int, int], shape: tuple[int, ...]) -> None:
    function, arrays = uniform(shape), key_and_counter(counter)
    graph, values = as_region(function, arrays)
    want = function(*map(tf.constant, arrays)).numpy()
    same_bits(interpret(graph, values)["o0"], want)
    same_bits(run_with_tensorflow(graph, values)["o0"], want)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
@pytest.mark.parametrize("alg", [1, 3])
def test_types_and_algorithms(dtype: Any, alg: int) -> None:
    function, arrays = uniform((9, 7), dtype, alg), key_and_counter((3, 4))
    graph, values = as_region(function, arrays)
    same_bits(interpret(graph, values)["o0"], function(*map(tf.constant, arrays)).numpy())


def normal(shape: Any, dtype: Any = tf.float32) -> Any:
    return lambda key, counter: RAW.StatelessRandomNormalV2(shape=shape, key=key, counter=counter, alg=1, dtype=dtype)


@pytest.mark.parametrize("counter", COUNTERS[:4])
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 64)])
def test_normal_numbers_by_definition(counter: tuple[int, int], dtype: Any, shape: tuple[int, ...]) -> None:
    """Words and places are TensorFlow's; its log, sin and cos of CPUs are not these here, which halves do not see."""
    function, arrays = normal(shape, dtype), key_and_counter(counter)
    graph, values = as_region(function, arrays)
    want = function(*map(tf.constant, arrays)).numpy()
    gpu = compiled(graph, H200)
    for got in (interpret(graph, values), run_with_tensorflow(graph, values), run_kernel_ir(graph, gpu, values)):
        assert got["o0"].dtype == want.dtype
        np.testing.assert_allclose(got["o0"].astype("f8"), want.astype("f8"), rtol=0, atol=1e-6)
    build_cubin(gpu)


def test_a_normal_number_of_a_word_of_zeros() -> None:
    """The logarithm is of 1e-7 at least: numbers are 5.68 at most, not infinite."""
    b = Builder()
    words = b.constant([0, 1 << 23, 0x7FFFFF], DType.I32)
    first = unit_interval(b, words, DType.F32)
    found = interpret(TensorGraph("words", [("o0", box_muller(b, first, first)[0])]), {})["o0"]
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 5.68


def integers(shape: Any, low: int, end: int, dtype: Any = tf.int32) -> Any:
    return lambda key, counter: RAW.StatelessRandomUniformIntV2(
        shape=shape, key=key, counter=counter, alg=1, minval=tf.constant(low, dtype), maxval=tf.constant(end, dtype))


@pytest.mark.parametrize("bounds", [(0, 1), (0, 1000), (-5, 17), (-(1 << 31), (1 << 31) - 1)])
@pytest.mark.parametrize("shape", [(), (7,), (3, 20)])
def test_integers_by_definition(bounds: tuple[int, int], shape: tuple[int, ...]) -> None:
    function, arrays = integers(shape, *bounds), key_and_counter((5, 7))
    graph, values = as_region(function, arrays)
    want = function(*map(tf.constant, arrays)).numpy()
    gpu = compiled(graph, H200)
    for got in (interpret(graph, values), run_with_tensorflow(graph, values), run_kernel_ir(graph, gpu, values)):
        same_bits(got["o0"], want)
    build_cubin(gpu)


@pytest.mark.parametrize("seed", [np.array([1, 2], np.int32), np.array([-5, 1 << 30], np.int32),
                                  np.array([1 << 40, -(1 << 62) - 3], np.int64)])
def test_seeds_are_scrambled_alike(seed: Any) -> None:
    def function(seed: tf.Tensor) -> Any:
        return tuple(RAW.StatelessRandomGetKeyCounter(seed=seed))

    graph, values = as_region(function, [seed])
    want = [t.numpy() for t in function(tf.constant(seed))]
    for got in (interpret(graph, values), run_with_tensorflow(graph, values)):
        same_bits(got["o0"], want[0])
        same_bits(got["o1"], want[1])


def dropout(x: tf.Tensor, seed: tf.Tensor) -> Any:
    return tf.nn.experimental.stateless_dropout(x, 0.3, seed=seed), tf.random.stateless_uniform(tf.shape(x), seed)


@pytest.mark.parametrize("shape", [(6, 16), (3, 7), (257,), (2, 1100)])
@pytest.mark.parametrize("specs", [None, [tf.TensorSpec(None), SEED]], ids=["known sizes", "unknown sizes"])
def test_every_level_gives_the_same_bits(shape: tuple[int, ...], specs: Any) -> None:
    specs = specs and [tf.TensorSpec([None] * len(shape)), SEED]
    arrays = [np.random.default_rng(0).standard_normal(shape).astype(np.float32), np.array([3, -4], np.int32)]
    graph, values = as_region(dropout, arrays, specs)
    want = [t.numpy() for t in dropout(*map(tf.constant, arrays))]
    cpu, gpu = compiled(graph, CPU), compiled(graph, H200)
    runs = [interpret(graph, values), run_host(graph, cpu, values)]
    runs += [run_kernel_ir(graph, region, values) for region in (cpu, gpu) if shape[0] * shape[-1] < 300]
    for got in runs:
        same_bits(got["o0"], want[0])
        same_bits(got["o1"], want[1])
    build_cubin(gpu)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_keys_and_counters_are_moved_and_cast(device: DeviceSpec) -> None:
    largest = (1 << 64) - 1

    def function(key: tf.Tensor, x: tf.Tensor) -> Any:
        whole = tf.concat([key, tf.constant([largest, 1 << 63], tf.uint64), tf.cast(x, tf.uint64)], 0)
        return whole[::-1], tf.cast(whole, tf.int64), tf.where(x > 0, whole[:4], tf.constant(largest, tf.uint64))

    arrays = [np.array([largest - 4, 5], np.uint64), np.array([-1, 7, 0, 1], np.int32)]
    graph, values = as_region(function, arrays)
    parsed = parse_graph(format_graph(graph))
    region = compiled(graph, device)
    runs = [interpret(graph, values), interpret(parsed, values), run_kernel_ir(graph, region, values)]
    for got in runs if device.simt else [*runs, run_host(graph, region, values)]:
        for key, want in zip(("o0", "o1", "o2"), function(*map(tf.constant, arrays)), strict=True):
            same_bits(got[key], want.numpy())


@pytest.mark.parametrize("function", [lambda x: x + x, lambda x: tf.cast(x, tf.float32), lambda x: tf.reduce_sum(x),
                                      lambda x: x == x[::-1], lambda x: tf.bitwise.invert(x)])
def test_nothing_is_computed_with_keys(function: Any) -> None:
    *_, last = (n for n in imported(function, tf.TensorSpec([3], tf.uint64))[1].nodes.values() if n.op != "Identity")
    assert last.reason is not None
    assert "uint64" in last.reason


def test_words_at_computed_positions() -> None:
    b = Builder()
    scalars = [b.input(name, DType.I64, ()) for name in ("key", "low", "high")]
    words = b.op(OpKind.RANDOM_BITS, b.input("at", DType.I64, (5, 7)), *scalars)
    graph = TensorGraph("words", [("o0", words)])
    at = np.random.default_rng(0).integers(0, 99, (5, 7))
    values = {"at": at, "key": np.int64(-7), "low": np.int64(-3), "high": np.int64(11)}
    key, counter = (np.array(x, np.int64).view(np.uint64) for x in ([-7], [-3, 11]))
    want = RAW.StatelessRandomUniformFullIntV2(shape=[99], key=key, counter=counter, alg=1, dtype=tf.uint32).numpy()
    cpu, gpu = compiled(graph, CPU), compiled(graph, H200)
    for got in (interpret(graph, values), run_host(graph, cpu, values), run_kernel_ir(graph, gpu, values)):
        same_bits(got["o0"], want.view(np.int32)[at])
    build_cubin(gpu)


def drawn_at(source: str) -> list[tuple[str, str]]:
    """The block and the word of a block that each call draws whose counter moves."""
    calls = re.findall(r"tfs_random_bits\(([^,]*), ([^,]*),", source)
    return [(block, word) for block, word in calls if "thread" in block or "chunk" in block]


@pytest.mark.parametrize("shape", [(64, 128, 768), (640, 130)])
def test_a_dropout_is_one_kernel_whose_lanes_share_a_block(shape: tuple[int, ...]) -> None:
    graph, _ = as_region(lambda x, seed: dropout(x, seed)[0], [np.zeros(shape, "f4"), np.zeros(2, "i4")])
    region = compiled(graph, H200)
    [kernel] = region.kernels
    assert kernel.schedule.mapping.vector == 4
    [(block, word)] = drawn_at(region.source)
    assert "lane" not in block
    assert word == "lane"


def test_a_mask_is_drawn_by_the_kernel_that_needs_it() -> None:
    """Though it could be drawn before the matmul that this kernel waits for. Lanes of a row share blocks, too."""
    def function(x: tf.Tensor, w: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return tf.nn.experimental.stateless_dropout(tf.nn.softmax(tf.matmul(x, w)), 0.1, seed=seed)

    arrays = [np.zeros((4096, 512), "f4"), np.zeros((512, 512), "f4"), np.zeros(2, "i4")]
    region = compiled(as_region(function, arrays)[0], H200)
    kinds = [{n.kind for n in kernel.schedule.pattern.nodes} for kernel in region.kernels]
    assert any({OpKind.EXP, OpKind.RANDOM_BITS, OpKind.SELECT} <= each for each in kinds)
    [(block, word)] = drawn_at(region.source)
    assert "lane" not in block
    assert word == "lane"
    build_cubin(region)


def reasons(function: Any, *specs: tf.TensorSpec, device: str) -> dict[str, str | None]:
    return {n.op: n.reason for n in imported(function, *specs, device=device)[1].nodes.values()}


def test_a_gpu_draws_in_regions_and_a_cpu_does_not() -> None:
    def function(seed: tf.Tensor) -> Any:
        return tf.random.stateless_uniform([5], seed)

    ops = ("StatelessRandomGetKeyCounter", "StatelessRandomUniformV2")
    on_gpu, on_cpu = (reasons(function, SEED, device=f"/device:{kind}:0") for kind in ("GPU", "CPU"))
    for op in ops:
        assert on_gpu[op] is None
        assert on_cpu[op] == f"{op} draws random numbers"


def test_what_stays() -> None:
    specs = UINT64, tf.TensorSpec([2], tf.uint64)
    gpu = "/device:GPU:0"
    assert reasons(uniform([3], tf.float64), *specs, device=gpu)["StatelessRandomUniformV2"] == \
        "StatelessRandomUniformV2 of float64"
    assert reasons(uniform([3], alg=2), *specs, device=gpu)["StatelessRandomUniformV2"] == \
        "StatelessRandomUniformV2 of another algorithm than Philox"
    drawn = reasons(lambda key, counter: RAW.StatelessTruncatedNormalV2(shape=[3], key=key, counter=counter, alg=1),
                    *specs, device=gpu)
    assert drawn["StatelessTruncatedNormalV2"] == "StatelessTruncatedNormalV2 draws random numbers"
    assert reasons(normal([3], tf.float64), *specs, device=gpu)["StatelessRandomNormalV2"] == \
        "StatelessRandomNormalV2 of float64"
    assert reasons(integers([3], 5, 5), *specs, device=gpu)["StatelessRandomUniformIntV2"] == \
        "StatelessRandomUniformIntV2 of no numbers"
    assert reasons(integers([3], 0, 1 << 40, tf.int64), *specs, device=gpu)["StatelessRandomUniformIntV2"] == \
        "StatelessRandomUniformIntV2 of int64"


def test_numbers_of_a_shape_that_data_decide_stay() -> None:
    drawn = reasons(lambda shape, seed: tf.random.stateless_uniform(shape, seed), tf.TensorSpec([None], tf.int32), SEED,
                    device="/device:GPU:0")
    assert "run time" in str(drawn["StatelessRandomUniformV2"])


def drawn_by_noise(logits: Any, samples: int, seed: Any) -> Any:
    """What TensorFlow's kernel for GPUs draws: the largest of logits with noise, the last one of several."""
    noise = tf.random.stateless_uniform((len(logits), samples, logits.shape[1]), seed, alg="philox").numpy()
    noise = np.where(noise == 0, np.float32(2e-30), noise)
    scores = logits[:, None].astype(np.float32) - np.log(-np.log(noise))
    return logits.shape[1] - 1 - np.argmax(scores[..., ::-1], -1)


@pytest.mark.parametrize(("batch", "classes", "samples"), [(1, 5, 1), (3, 130, 2), (2, 1, 4)])
def test_how_a_gpu_draws_classes(batch: int, classes: int, samples: int) -> None:
    logits = np.random.default_rng(1).standard_normal((batch, classes)).astype(np.float32)
    for seed in (np.array([3, -4], np.int32), np.array([1 << 40, 7], np.int64)):
        graph, values = as_region(lambda x, seed: RAW.StatelessMultinomial(
            logits=x, num_samples=samples, seed=seed, output_dtype=tf.int32), [logits, seed])
        want = drawn_by_noise(logits, samples, seed)
        gpu = compiled(graph, H200)
        for got in (interpret(graph, values), run_kernel_ir(graph, gpu, values),
                    run_with_tensorflow(graph, values)):
            np.testing.assert_array_equal(got["o0"], want)
        build_cubin(gpu)


@pytest.mark.gpu
@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")
def test_a_gpu_draws_so() -> None:
    logits = 4 * np.random.default_rng(2).standard_normal((4, 1000)).astype(np.float32)
    with tf.device("/GPU:0"):
        got = RAW.StatelessMultinomial(logits=tf.constant(logits), num_samples=50, seed=[3, -4], output_dtype=tf.int32)
    np.testing.assert_array_equal(got, drawn_by_noise(logits, 50, np.array([3, -4], np.int32)))
