"""Sums over the GPUs of one process become work in their streams; others stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.frontend.check import types_of_graph
from tf_stitch.config import StitchConfig
from tf_stitch.device.spec import CPU, H200
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.passes.all_reduces import ALL_REDUCE, IN_STREAMS
from tf_stitch.graph.passes.sums_in_streams import SumsInStreams
from tf_stitch.graph.pipeline import GraphOptions, find_regions
from tf_stitch.graph.state import GraphState

TASK = "/job:localhost/replica:0/task:0"
GPUS = (f"{TASK}/device:GPU:0", f"{TASK}/device:GPU:1")


def step(devices: Sequence[str] = GPUS, *, size: int = 2, times: int = 1, merge: str = "Add", hint: str = "auto",
         dtype: tf.DType = tf.float32) -> GraphState:
    """Each device gives a tensor to `times` sums, the instance being an argument."""
    def function(x: tf.Tensor, instance: tf.Tensor) -> list[tf.Tensor]:
        sums = []
        for i, _ in enumerate(devices):
            y = tf.cast(x, dtype)
            for turn in range(times):
                y = tf.raw_ops.CollectiveReduceV2(input=y, group_size=size, group_key=7, instance_key=instance + turn,
                                                  ordering_token=[], merge_op=merge, final_op="Id",
                                                  communication_hint=hint, name=f"sum_{i}_{turn}")
            sums.append(y)
        return sums

    with tf.Graph().as_default() as graph:  # a function would let one wait for the other
        function(tf.compat.v1.placeholder(tf.float32, (4,)), tf.compat.v1.placeholder(tf.int32, ()))
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        which = int(node.name.split("_")[1]) if node.name.startswith("sum_") else 0
        node.device = devices[which] if node.op == "CollectiveReduceV2" else f"{TASK}/device:CPU:0"
    return GraphState(graph_def, types_of_graph(graph), frozenset())


def rewritten(state: GraphState, nccl: bool = True, skip: str = "") -> tuple[GraphDef, list[str]]:
    """The graph, and the sums in streams."""
    made = replace(state, device_type="GPU")
    controls = Controls(replace(StitchConfig(), skip=(skip,) if skip else ()))
    made = SumsInStreams(controls, lambda: nccl, lambda one, other: False).run(made).graph
    return made.graph_def, [n.name for n in made.graph_def.node if n.op == ALL_REDUCE]


def replaced(state: GraphState, nccl: bool = True, skip: str = "") -> list[str]:
    return sorted(rewritten(state, nccl, skip)[1])


def test_sums_of_one_process() -> None:
    graph = {n.name: n for n in rewritten(step())[0].node}
    for rank in range(2):
        node = graph[f"sum_{rank}_0"]
        assert (node.op, node.attr["size"].i, node.attr["rank"].i) == (ALL_REDUCE, 2, rank)
        assert node.attr["group"].s == ";".join(GPUS).encode()
        assert node.attr["T"].type == tf.float32.as_datatype_enum
        assert len(node.input) == 2, "the data, and which sum it is"


def test_each_device_has_several() -> None:
    assert replaced(step(times=2)) == ["sum_0_0", "sum_0_1", "sum_1_0", "sum_1_1"]


@pytest.mark.parametrize("state", [
    step(size=4),  # of other processes, too
    step((GPUS[0], GPUS[0])),
    step((f"{TASK}/device:CPU:0", f"{TASK}/device:CPU:1")),
    step(merge="Max"),
    step(hint="ring"),
    step(dtype=tf.int32),
], ids=["other processes", "one device", "CPUs", "largest", "ring", "int32"])  # fmt: skip
def test_what_stays(state: GraphState) -> None:
    assert replaced(state) == []


def test_the_user_or_the_machine_does_not_want_it() -> None:
    assert replaced(step(), nccl=False) == []
    assert replaced(step(), skip="sum_0_0") == [], "a sum without one of its members would never end"


def test_a_sum_in_a_branch_stays() -> None:
    """Where it is dead on one device, the other would wait."""
    @tf.function(autograph=False)
    def function(x: tf.Tensor, instance: tf.Tensor, wanted: tf.Tensor) -> list[tf.Tensor]:
        def both() -> list[tf.Tensor]:
            return [tf.raw_ops.CollectiveReduceV2(input=x, group_size=2, group_key=7, instance_key=instance,
                                                  ordering_token=[], merge_op="Add", final_op="Id", name=f"sum_{i}_0")
                    for i in range(2)]
        return tf.cond(wanted, both, lambda: [x, x])

    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    specs = tf.TensorSpec((4,)), tf.TensorSpec((), tf.int32), tf.TensorSpec((), tf.bool)
    concrete = convert_variables_to_constants_v2(function.get_concrete_function(*specs), lower_control_flow=True)
    graph_def = concrete.graph.as_graph_def()
    sums = [n for n in graph_def.node if n.op == "CollectiveReduceV2"]
    assert len(sums) == 2
    for i, node in enumerate(sums):
        node.device = GPUS[i]
    assert replaced(GraphState(graph_def, types_of_graph(concrete.graph), frozenset())) == []


def test_the_report_says_what_became_of_them() -> None:
    config = StitchConfig()
    profiles = {"CPU": CPU.profile, "GPU": H200.profile}
    for nccl, reason in ((True, IN_STREAMS), (False, "CollectiveReduceV2 has no legalisation")):
        options = GraphOptions.by(config, "GPU", True, profiles, Controls(config), lambda nccl=nccl: nccl)
        found = find_regions(replace(step(), device_type="GPU"), options)
        assert reason in found.regions.left_out["sum_0_0"]
