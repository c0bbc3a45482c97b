"""Sessions' graphs with branches as Switch and Merge nodes, before and after both sides are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.frontend.check import types_of_graph
from tests.graph.branches.programs import PROFILES
from tf_stitch.graph.passes.branches_to_selects import BranchesToSelects
from tf_stitch.graph.state import GraphState

v1 = tf.compat.v1
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
Made: TypeAlias = tuple[Sequence[tf.Tensor], Sequence[tf.Operation]]


@contextmanager
def switches() -> Iterator[None]:
    """tf.cond makes Switch and Merge nodes at once."""
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


@dataclass
class OldProgram:
    """A graph of variables and a vector of four.

    Attributes:
        build: from the variables and the vector makes tensors to fetch, and operations to run.
        first: what the variables have at first.
    """

    build: Callable[[list[Any], tf.Tensor], Made]
    first: list[Any]
    fetched: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        with tf.Graph().as_default() as graph, switches():
            variables = [v1.get_variable(f"v{i}", initializer=tf.constant(value), use_resource=True)
                         for i, value in enumerate(self.first)]
            x = v1.placeholder(tf.float32, [4], name="x")
            results, operations = self.build(variables, x)
            self.fetched = [t.name for t in results]
            self.targets = [op.name for op in operations]
            kept = [t.op.name for t in results] + self.targets
            self.before = v1.graph_util.extract_sub_graph(graph.as_graph_def(), kept)
        for node in self.before.node:
            node.device = GPU
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(self._plain(self.before), name="")
            state = GraphState(self.before, types_of_graph(graph), frozenset(kept), device_type="GPU")
            self.state = BranchesToSelects(PROFILES).run(state).graph

    @property
    def after(self) -> GraphDef:
        return self.state.graph_def

    @property
    def stay(self) -> list[str]:
        """Why branches stay."""
        return [branch.reason for branch in self.state.branches if branch.reason is not None]

    def check(self, xs: Sequence[Any]) -> None:
        """Both graphs give the same, bit for bit, and leave the same in the variables."""
        for got, wanted in zip(self.run(self.after, xs), self.run(self.before, xs), strict=True):
            for g, w in zip(got, wanted, strict=True):
                np.testing.assert_array_equal(np.asarray(g).tobytes(), np.asarray(w).tobytes(), err_msg=f"{g} {w}")

    def run(self, graph_def: GraphDef, xs: Sequence[Any]) -> list[list[Any]]:
        """Results, and what the variables have, after each step."""
        as_it_is = v1.ConfigProto()
        as_it_is.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Graph().as_default() as graph, v1.Session(config=as_it_is) as session:
            tf.graph_util.import_graph_def(self._plain(graph_def), name="")
            there = {node.name for node in graph_def.node}
            handles = [(graph.get_tensor_by_name(f"v{i}:0"), value) for i, value in enumerate(self.first)
                       if f"v{i}" in there]
            session.run([tf.raw_ops.AssignVariableOp(resource=handle, value=value) for handle, value in handles])
            reads = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=value.dtype) for handle, value in handles]
            return [[*session.run([*self.fetched, *self.targets], {"x:0": x})[:len(self.fetched)], *session.run(reads)]
                    for x in xs]

    @staticmethod
    def _plain(graph_def: GraphDef) -> GraphDef:
        copy = GraphDef.FromString(graph_def.SerializeToString())
        for node in copy.node:
            node.device = ""
        return copy
