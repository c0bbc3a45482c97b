"""Large sums over GPUs are cut into buckets: what follows gets the same numbers, and members of a sum are cut alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.frontend.check import types_of_graph
from tf_stitch.graph.passes import sum_buckets
from tf_stitch.graph.passes.all_reduces import ALL_REDUCE
from tf_stitch.graph.passes.sum_buckets import cut_into_buckets
from tf_stitch.graph.state import GraphState

GPUS = ("/device:GPU:0", "/device:GPU:1")
SIZES = (2, 5, 1, 7, 3)


@pytest.fixture(autouse=True)
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_buckets, "BUCKET_BYTES", 24)  # six float32


def step(sizes: Sequence[Sequence[int]] = (SIZES, SIZES), *, split: Sequence[int] = SIZES, others: bool = False,
         dtype: tf.DType = tf.float32) -> GraphState:
    """Each GPU packs tensors of these sizes, sums, and splits them; `others` read the pack or the sum, too."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(dtype, (), "x")
        tf.compat.v1.placeholder(tf.int32, (), "instance")
        for i, own in enumerate(sizes):
            parts = [tf.fill((n,), x + tf.cast(10 * i + j, dtype), f"part_{i}_{j}") for j, n in enumerate(own)]
            pack = tf.concat(parts, 0, f"pack_{i}")
            whole = tf.identity(pack, f"sum_{i}")
            pieces = tf.split(whole, split, name=f"split_{i}") if sum(split) == sum(own) else [whole]
            for j, piece in enumerate(pieces):
                tf.identity(piece * tf.cast(j + 1, dtype), f"y_{i}_{j}")
            if others:
                tf.identity(whole, f"other_{i}")
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        if node.name.startswith("sum_"):
            rank = int(node.name[-1])
            node.op, node.device = ALL_REDUCE, GPUS[rank]
            node.input[:] = [f"pack_{rank}", "instance"]
            node.attr["group"].s, node.attr["size"].i, node.attr["rank"].i = b"0;1", 2, rank
    names = {n.name for n in graph_def.node if n.name.startswith(("y_", "other_"))}
    return GraphState(graph_def, types_of_graph(graph), frozenset(names))


def sums(graph_def: GraphDef) -> list[tuple[str, int, list[str]]]:
    return [(n.name, n.attr["bucket"].i, [i for i in n.input if i.startswith("^")])
            for n in graph_def.node if n.op == ALL_REDUCE]


def results(graph_def: GraphDef, names: Sequence[str]) -> list[list[float]]:
    """With sums that are what one member gives."""
    made = GraphDef()
    made.CopyFrom(graph_def)
    for node in made.node:
        node.device = ""
        if node.op == ALL_REDUCE:
            dtype = node.attr["T"].type
            node.op, node.input[:] = "Identity", [node.input[0], *(i for i in node.input if i.startswith("^"))]
            node.attr.clear()
            node.attr["T"].type = dtype
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(made, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            return [np.ravel(v).tolist() for v in session.run([f"{n}:0" for n in names],
                                                              {"x:0": 3, "instance:0": 7})]  # fmt: skip


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.bfloat16])
def test_the_numbers_are_the_same(dtype: tf.DType) -> None:
    state = step(dtype=dtype)
    cut = cut_into_buckets(state)
    assert len(sums(cut.graph_def)) > 2
    names = sorted(state.preserved)
    assert results(cut.graph_def, names) == results(state.graph_def, names)


def test_buckets_follow_each_other() -> None:
    cut = cut_into_buckets(step()).graph_def
    assert sums(cut) == [
        ("sum_0/tfs_bucket_0", 0, []),
        ("sum_0/tfs_bucket_1", 1, ["^sum_0/tfs_bucket_0"]),
        ("sum_0/tfs_bucket_2", 2, ["^sum_0/tfs_bucket_1"]),
        ("sum_1/tfs_bucket_0", 0, []),
        ("sum_1/tfs_bucket_1", 1, ["^sum_1/tfs_bucket_0"]),
        ("sum_1/tfs_bucket_2", 2, ["^sum_1/tfs_bucket_1"]),
    ]
    nodes = {n.name: n for n in cut.node}
    assert nodes["sum_0/tfs_bucket_2"].input[0] in ("part_0_4", "part_0_4:0"), "one tensor needs no pack"
    assert nodes["sum_1/tfs_bucket_1"].device == GPUS[1]
    assert not {"pack_0", "sum_0", "split_0"} & set(nodes)


def test_types_of_what_is_new() -> None:
    cut = cut_into_buckets(step())
    assert cut.types_of("sum_1/tfs_bucket_1") == [(tf.float32.as_datatype_enum, (8,))]
    assert cut.types_of("split_0/tfs_bucket_0") == [(tf.float32.as_datatype_enum, (n,)) for n in (2, 5)]


def test_who_waits_for_a_sum_waits_for_its_last_bucket() -> None:
    state = step()
    waiting = state.copy_graph()
    waiting.node.add(name="after", op="NoOp", input=["^sum_0", "^split_0"])
    preserved = state.preserved | {"after"}
    cut = cut_into_buckets(GraphState(waiting, lambda n: [] if n == "after" else state.types_of(n), preserved))
    assert list(next(n for n in cut.graph_def.node if n.name == "after").input) == ["^sum_0/tfs_bucket_2"]


@pytest.mark.parametrize("state", [
    step(others=True),
    step(split=(1, 6, 1, 7, 3)),
    step(split=(4,)),
    step((SIZES, (2, 5, 1, 3, 7))),
], ids=["somebody reads the sum", "split elsewhere", "not split", "members differ"])  # fmt: skip
def test_what_stays_whole(state: GraphState) -> None:
    assert cut_into_buckets(state) is state


def test_a_member_that_stays_whole_keeps_the_others_whole() -> None:
    """Else one would wait for a sum that the other never begins."""
    state = step()
    graph_def = state.copy_graph()
    graph_def.node.add(name="other", op="Identity", input=["sum_1"]).attr["T"].type = 1
    kept = GraphState(graph_def, lambda n: state.types_of("sum_1" if n == "other" else n), state.preserved | {"other"})
    assert cut_into_buckets(kept) is kept


def test_a_sum_of_unknown_size_keeps_the_others_whole() -> None:
    """It may meet any of them."""
    state = step()
    unknown = GraphState(state.graph_def, lambda name: [(1, (-1,))] if name == "sum_1" else state.types_of(name),
                         state.preserved)
    assert cut_into_buckets(unknown) is unknown


def test_a_small_sum_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_buckets, "BUCKET_BYTES", 18 * 4)
    state = step()
    assert cut_into_buckets(state) is state
