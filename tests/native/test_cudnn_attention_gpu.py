"""Attentions and gradients of the native op on a GPU against NumPy in float64: sizes and layouts at random, and results
that nobody wants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import tensorflow as tf

from tests.libraries.test_attention import GRADIENTS, attention_nodes, call_of, sharing_node
from tests.native.conftest import Regions
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.strided_view import path_to
from tf_stitch.jit.libraries import words_of
from tf_stitch.libraries.attention import ATTENTION
from tf_stitch.placement.executable import BufferRef, Executable, LibraryStep, encode
from tf_stitch.placement.executable_format import Space

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]
TOLERANCE = {DType.F16: 4e-3, DType.BF16: 2.5e-2}
"""Relative to the largest element of a result."""


@pytest.fixture(autouse=True)
def on_gpu() -> Iterator[None]:
    with tf.device("/GPU:0"):
        yield


def check(regions: Regions, nodes: Sequence[Node], seed: int) -> None:
    """Runs the call of these nodes a few times: as a CUDA graph at last."""
    fused = ATTENTION.match(nodes)
    assert fused is not None
    bound = ATTENTION.bind(fused, ())
    read = len(bound.arguments) - len(nodes)
    random = np.random.default_rng(seed)
    values = {node: random.standard_normal(node.type.dims).astype(node.type.dtype.numpy)
              for node, _ in bound.arguments[:read]}
    want = wanted(nodes, values)
    given = [node for node, _ in bound.arguments[:read]]
    for node in given:  # what an earlier call gives
        values[node] = want.get(node, values[node])
    results = [node for node, _ in bound.arguments[read:]]
    refs = [*(BufferRef(Space.INPUT, i) for i in range(read)),
            *(BufferRef(Space.OUTPUT, i) for i in range(len(results)))]
    e = Executable(tuple(f"x{i}" for i in range(read)), (), tuple(node.type for node in results), (), (),
                   (LibraryStep(bound.call, tuple(refs)),), None)
    region = regions.add(lambda key: encode(e, {}))
    for _ in range(6):
        found = regions.call(region, [tf.identity(values[node]) for node in given],
                             types=[node.type.dtype.numpy for node in results])
        for node, out in zip(results, found, strict=True):
            exact = want[node]
            allowed = TOLERANCE.get(node.type.dtype, 1e-3) * max(1.0, float(np.abs(exact).max()))
            np.testing.assert_allclose(out.numpy().astype(np.float64), exact, 0, allowed, err_msg=str(bound.call))
    assert regions.library.region_runs(region) == 6, str(bound.call)


def wanted(nodes: Sequence[Node], values: dict[Node, np.ndarray]) -> dict[Node, np.ndarray]:
    """The nodes' values in float64, and those of the attention that gradients are of, rounded as it stores them."""
    exact: dict[Node, np.ndarray] = {}

    def value(node: Node) -> np.ndarray:
        if node not in exact:
            path = path_to(node, lambda one: False)
            if path:
                whole = value(path[0].operands[0])
                for view in path:
                    whole = view.info.reference(view.attrs, whole)
                exact[node] = whole
            elif node.kind is K.INPUT:
                exact[node] = values[node].astype(np.float64)
            else:
                whole = node.info.reference(node.attrs, *map(value, node.operands))
                exact[node] = whole if node in nodes else whole.astype(node.type.dtype.numpy).astype(np.float64)
        return exact[node]

    for node in nodes:
        value(node)
    return {node: found if node in nodes else found.astype(node.type.dtype.numpy) for node, found in exact.items()}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.value)
@pytest.mark.parametrize("seed", range(6))
def test_random_attentions(regions: Regions, dtype: DType, seed: int) -> None:
    random = np.random.default_rng(seed)
    batch, heads, queries, keys = (int(random.integers(*limits)) for limits in ((1, 4), (1, 5), (2, 300), (2, 300)))
    causal = bool(random.integers(0, 2))
    columns = 8 * int(random.integers(1, 17))
    nodes = attention_nodes(dtype, batch, heads, queries, queries if causal else keys, columns, causal,
                            rows_outside=bool(random.integers(0, 2)))
    check(regions, [nodes[K.ATTENTION], nodes[K.ATTENTION_LOG_SUM]], seed)
    check(regions, [nodes[K.ATTENTION]], seed)
    check(regions, [nodes[kind] for kind in GRADIENTS], seed)


@pytest.mark.parametrize("kind", [K.ATTENTION, K.ATTENTION_LOG_SUM, *GRADIENTS], ids=lambda k: k.value)
def test_one_result_alone(regions: Regions, kind: K) -> None:
    check(regions, [attention_nodes(DType.BF16, 2, 3, 100, 100, 64, causal=True)[kind]], 0)


@pytest.mark.parametrize("kinds", [(K.ATTENTION,), (K.ATTENTION, K.ATTENTION_LOG_SUM), GRADIENTS], ids=range(3))
def test_calls_are_tried_before_they_run(regions: Regions, kinds: Sequence[K]) -> None:
    nodes = attention_nodes(DType.BF16, 2, 3, 100, 100, 64, causal=True)
    assert regions.library.try_calls(0, words_of(call_of(*(nodes[kind] for kind in kinds)))) == ""


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.value)
@pytest.mark.parametrize(("heads", "shared", "keys"), [(8, 4, 200), (6, 6, 333), (4, 2, 64)])
def test_heads_that_share_keys(regions: Regions, dtype: DType, heads: int, shared: int, keys: int) -> None:
    check(regions, [sharing_node(dtype, 2, heads, shared, 200, keys, 64, causal=keys == 200)], 0)
