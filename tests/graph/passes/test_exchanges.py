"""Sums of two GPUs that reach each other become exchanges and additions: what follows gets the same numbers."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.graph.passes import test_sum_buckets
from tests.graph.passes.test_sum_buckets import few_bytes, results, step
from tf_stitch.graph.passes.all_reduces import ALL_REDUCE
from tf_stitch.graph.passes.exchanges import EXCHANGE, exchange_between_two
from tf_stitch.graph.passes.sum_buckets import cut_into_buckets
from tf_stitch.graph.state import GraphState

__all__ = ["few_bytes"]
NAMES = [f"y_{rank}_{i}" for rank in range(2) for i in range(len(test_sum_buckets.SIZES))]


def exchanged(state: GraphState, peers: bool = True) -> GraphState:
    asked = []

    def are_peers(one: int, other: int) -> bool:
        asked.append((one, other))
        return peers

    made = exchange_between_two(state, are_peers)
    assert set(asked) <= {(0, 1)}
    return made


def on_gpus(state: GraphState) -> GraphState:
    """A group of devices' names, as all_reduces.py has it."""
    graph_def = state.copy_graph()
    for node in graph_def.node:
        if node.op == ALL_REDUCE:
            node.attr["group"].s = b"/device:GPU:0;/device:GPU:1"
    return state.with_graph(graph_def)


def alone(state: GraphState) -> GraphState:
    """The same with nothing of the other GPU: what one member gives, as `results` takes a sum, and zeros."""
    graph_def = state.copy_graph()
    for node in graph_def.node:
        if node.op == EXCHANGE:
            dtype = node.attr["T"].type
            node.op, node.input[:] = "ZerosLike", [node.input[0]]
            node.attr.clear()
            node.attr["T"].type = dtype
    return state.with_graph(graph_def)


def ops_of(state: GraphState, op: str) -> list[str]:
    return [node.name for node in state.graph_def.node if node.op == op]


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.bfloat16])
def test_the_numbers_are_the_same(dtype: tf.DType) -> None:
    state = on_gpus(step(dtype=dtype))
    made = exchanged(cut_into_buckets(state))
    assert not ops_of(made, ALL_REDUCE)
    assert len(ops_of(made, EXCHANGE)) > 2
    assert results(alone(made).graph_def, NAMES) == results(state.graph_def, NAMES)


def test_parts_are_added_where_the_sum_was_split() -> None:
    """So that who reads a part adds it, and no kernel writes the sum. A bucket of one tensor is added as a whole."""
    made = exchanged(cut_into_buckets(on_gpus(step())))
    producers = {node.name: node.op for node in made.graph_def.node}
    operands = [{producers[name.partition(":")[0]] for name in node.input}
                for node in made.graph_def.node if node.op == "AddV2" and "tfs_sum" in node.name]
    assert {"SplitV"} in operands
    assert all(found in ({"SplitV"}, {EXCHANGE, "ConcatV2"}, {EXCHANGE, "Fill"}) for found in operands)


def test_exchanges_of_a_device_follow_each_other() -> None:
    """And wait for no addition, which the region behind all of them has."""
    made = exchanged(cut_into_buckets(on_gpus(step())))
    exchanges = ops_of(made, EXCHANGE)
    waits = [name.removeprefix("^") for node in made.graph_def.node if node.op == EXCHANGE for name in node.input
             if name.startswith("^")]
    assert waits
    assert set(waits) <= set(exchanges)


def test_a_sum_that_somebody_reads_whole() -> None:
    state = on_gpus(step(others=True))
    made = exchanged(state)
    names = [*NAMES, "other_0", "other_1"]
    assert results(alone(made).graph_def, names) == results(state.graph_def, names)


@pytest.mark.parametrize("group", [b"/device:GPU:0;/device:GPU:1;/device:GPU:2", b"/device:GPU:0;/device:GPU:1"])
def test_what_stays(group: bytes) -> None:
    """Sums of three, and of GPUs that do not reach each other."""
    state = step()
    for node in state.graph_def.node:
        if node.op == ALL_REDUCE:
            node.attr["group"].s = group
    made = exchanged(state, peers=group.count(b";") == 2)
    assert made is state


def test_a_sum_that_the_caller_gets_stays() -> None:
    """With all that meet it: one member cannot sum while the other one exchanges."""
    state = on_gpus(step())
    kept = GraphState(state.graph_def, state.types_of, state.preserved | {"sum_1"})
    assert exchanged(kept) is kept
    split = GraphState(state.graph_def, state.types_of, state.preserved | {"split_0"})
    assert "split_0" in ops_of(exchanged(split), "SplitV")
