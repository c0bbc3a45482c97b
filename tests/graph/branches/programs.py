"""Functions with branches as TensorFlow's optimizer leaves them, before and after both sides are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.frontend.check import types_of_graph
from tf_stitch.device.spec import H200
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.graph.finish.access_order import check_access_order
from tf_stitch.graph.passes.branches_to_selects import BranchesToSelects
from tf_stitch.graph.passes.values_of_optionals import ValuesOfOptionals
from tf_stitch.graph.state import GraphState
from tools.benchmark.gpu_regions import optimized

PROFILES = {"GPU": H200.profile}
ALL = {"GPU": Matmuls.ALL_AND_CONVOLUTIONS}
Values: TypeAlias = list[np.ndarray[Any, Any]]


@dataclass
class Program:
    """A function of variables and of a vector of four.

    Attributes:
        function: takes the variables and the vector, gives tensors.
        first: what the variables, all of which it uses, have at first.
        any_shape: variables may be assigned what has another.
    """

    function: Callable[..., Sequence[tf.Tensor]]
    first: Values
    any_shape: bool = False

    @cached_property
    def concrete(self) -> Any:
        self._variables = [tf.Variable(value, shape=tf.TensorShape(None) if self.any_shape else None)
                           for value in self.first]
        function = tf.function(lambda x: self.function(self._variables, x), autograph=False)
        return function.get_concrete_function(tf.TensorSpec([4]))

    @cached_property
    def before(self) -> GraphDef:
        return optimized(self.concrete)

    @cached_property
    def given(self) -> GraphState:
        """Before all passes."""
        before = self.before
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(before, name="")
            ends = [*(t.op for t in self.concrete.graph.outputs), *self.concrete.graph.control_outputs]
            return GraphState(before, types_of_graph(graph), frozenset(op.name for op in ends), ALL,
                              device_type="GPU")

    @cached_property
    def state(self) -> GraphState:
        return BranchesToSelects(PROFILES).run(ValuesOfOptionals().run(self.given).graph).graph

    @property
    def after(self) -> GraphDef:
        return self.state.graph_def

    def run(self, graph_def: GraphDef, xs: Sequence[Any]) -> list[Values]:
        """Results, and what the variables have, after each call."""
        graph_def = GraphDef.FromString(graph_def.SerializeToString())
        for node in graph_def.node:
            node.device = ""
        with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
            tf.graph_util.import_graph_def(graph_def, name="")
            inside = {id(handle): argument.op.name for handle, argument in self.concrete.graph.captures}
            captured = [inside[id(variable.handle)] for variable in self._variables]
            handles = [graph.get_tensor_by_name(f"{name}:0") for name in captured]
            session.run([tf.raw_ops.AssignVariableOp(resource=handle, value=value)
                         for handle, value in zip(handles, self.first, strict=True)])
            reads = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=value.dtype)
                     for handle, value in zip(handles, self.first, strict=True)]
            results = [t.name for t in self.concrete.graph.outputs]
            controls = [op.name for op in self.concrete.graph.control_outputs]
            [x] = [t.name for t in self.concrete.inputs if t.dtype != tf.resource]
            return [[*session.run([*results, *controls], {x: value})[:len(results)], *session.run(reads)]
                    for value in xs]

    def check(self, xs: Sequence[Any]) -> None:
        """Both give the same, bit for bit, and access each variable in the same order."""
        check_access_order(self.before, self.after, {})
        for got, wanted in zip(self.run(self.after, xs), self.run(self.before, xs), strict=True):
            for g, w in zip(got, wanted, strict=True):
                np.testing.assert_array_equal(g, w)


def branch_ops(graph_def: GraphDef) -> list[str]:
    """Names of nodes of branches."""
    return sorted(node.name for node in graph_def.node if node.op in ("Switch", "Merge"))
