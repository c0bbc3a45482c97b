"""Functions as TensorFlow hands them to the graph hook: loops lowered, constants folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.grappler import tf_optimizer

from tests.frontend.check import types_of_graph
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.graph.state import GraphState


@dataclass
class Lowered:
    """A traced function's graph, and the names of its arguments and results."""

    graph_def: Any
    feeds: list[str]
    fetches: list[str]

    @property
    def preserved(self) -> frozenset[str]:
        """Nodes that must stay."""
        return frozenset(t.rpartition(":")[0] for t in self.fetches)

    def state(self) -> GraphState:
        """The graph with its types, as the graph passes get it."""
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(self.graph_def, name="")
        return GraphState(self.graph_def, types_of_graph(graph), self.preserved, {"CPU": Matmuls.ALL})

    def run(self, *arrays: Any, graph_def: Any = None) -> list[Any]:
        """The results, by the graph or another with the same names."""
        with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
            tf.graph_util.import_graph_def(self.graph_def if graph_def is None else graph_def, name="")
            results: list[Any] = session.run(self.fetches, dict(zip(self.feeds, arrays, strict=True)))
            return results


def lowered(function: Callable[..., Any], *specs: tf.TensorSpec) -> Lowered:
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=True)
    fetches = [t.name for t in frozen.outputs]
    meta = tf.compat.v1.train.export_meta_graph(graph_def=frozen.graph.as_graph_def(), graph=frozen.graph)
    meta.collection_def["train_op"].node_list.value.extend(fetches)
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    config.graph_options.rewrite_options.optimizers.extend(["pruning", "constfold"])
    graph_def = tf_optimizer.OptimizeGraph(config, meta)
    for node in graph_def.node:
        node.device = "/device:CPU:0"
    return Lowered(graph_def, [t.name for t in frozen.inputs], fetches)
