"""Traces a Python function of TensorFlow tensors, imports its graph, and compares the IR, interpreted in NumPy,
with what TensorFlow computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tf_stitch.frontend.tensorflow.export_table import tf_dtype
from tf_stitch.frontend.tensorflow.exporter import as_tensors, run_with_tensorflow
from tf_stitch.frontend.tensorflow.importer import ImportedGraph, TypesOf, import_graph
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.ir.bind import bind
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret

TOLERANCE = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
LIBRARY_ON = {"CPU": Matmuls.ALL_AND_CONVOLUTIONS}
_NO_WORK = {"Placeholder", "NoOp"}


@dataclass
class Traced:
    """A traced function and its import."""

    concrete: Any
    imported: ImportedGraph

    def opaque(self) -> dict[str, str]:
        """Reason by node, without sources and shape arithmetic."""
        return {f"{n.name} ({n.op})": n.reason for n in self.imported.nodes.values()
                if n.reason is not None and n.op not in _NO_WORK and not n.reason.startswith("shape arithmetic")}


@dataclass(frozen=True)
class TypesOfNodes:
    """Types by a function of a node's name."""

    output_types: TypesOf


def types_of_graph(graph: Any) -> TypesOf:
    """Types from the graph's own shape inference: unknown dims are -1."""

    def types_of(name: str) -> list[tuple[int, tuple[int, ...] | None]]:
        return [(t.dtype.as_datatype_enum,
                 None if t.shape.rank is None else tuple(-1 if d is None else d for d in t.shape.as_list()))
                for t in graph.get_operation_by_name(name).outputs]

    return types_of


def trace(function: Callable[..., Any], *specs: tf.TensorSpec) -> Traced:
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    return Traced(concrete, import_graph(concrete.graph.as_graph_def(), types_of_graph(concrete.graph),
                                          library_on=LIBRARY_ON))


def check(function: Callable[..., Any], *arrays: Any, specs: Sequence[tf.TensorSpec] | None = None,
          rtol: float | None = None, opaque: Sequence[str] = (), graphs: bool = True,
          same_as: Callable[..., Any] | None = None) -> Traced:
    """Asserts that IR, exported ops and exported graph agree with TensorFlow on `function(*arrays)`.

    Args:
        specs: what to trace with; the arrays' own types by default. Symbolic dims are bound from the arrays.
        opaque: ops that may stay TensorFlow ops.
        graphs: also run both exports.
        same_as: what TensorFlow computes instead, where it has no kernel for `function`, nor runs its exported ops.
    """
    arrays = tuple(np.asarray(a) for a in arrays)
    specs = specs or [tf.TensorSpec(a.shape, a.dtype) for a in arrays]
    traced = trace(function, *specs)
    unexpected = {k: v for k, v in traced.opaque().items() if not any(f"({op})" in k for op in opaque)}
    assert not unexpected, unexpected
    names = [t.name for t in traced.concrete.graph.inputs]
    values = dict(zip(names, arrays, strict=False))
    for name, captured in zip(names[len(arrays):], traced.concrete.captured_inputs, strict=True):
        if captured.dtype != tf.resource:
            values[name] = captured.numpy()
    outputs: list[tuple[str, Node]] = []
    for tensor in traced.concrete.graph.outputs:
        node = traced.imported.value(tensor.name)
        assert node is not None, tensor
        outputs.append((tensor.name, node))
    graph = TensorGraph("test", outputs)
    graph = bind(graph, {n: a.shape for n, a in values.items()})
    expected = (same_as or function)(*[tf.constant(a) for a in arrays])
    flat = [e.numpy() for e in tf.nest.flatten(expected)]
    compare(interpret(graph, values), graph, flat, rtol)
    if graphs:
        if same_as is None:
            compare(run_with_tensorflow(graph, values), graph, flat, rtol)
        round_trip(graph, values, flat, rtol)
    return traced


def round_trip(graph: TensorGraph, values: dict[str, Any], expected: Sequence[Any], rtol: float | None) -> None:
    """IR -> GraphDef -> IR."""
    given: dict[str, str] = {}

    def placeholder(key: str, node: Node) -> Any:
        tensor = tf.raw_ops.Placeholder(dtype=tf_dtype(node.type.dtype), shape=node.type.dims)
        given[key] = tensor.name
        return tensor

    with tf.Graph().as_default() as tf_graph:
        exported = as_tensors(graph, placeholder)
        again = import_graph(tf_graph.as_graph_def(), types_of_graph(tf_graph), library_on=LIBRARY_ON)
    nodes = {n.name: n.reason for n in again.nodes.values() if n.reason and n.op not in _NO_WORK}
    assert all(r.startswith("shape arithmetic") for r in nodes.values()), nodes
    outputs = []
    for key, _ in graph.outputs:
        node = again.value(exported[key].name)
        assert node is not None
        outputs.append((key, node))
    fed = {given[key]: v for key, v in values.items() if key in given}
    compare(interpret(TensorGraph("again", outputs), fed), graph, expected, rtol)


def compare(got: dict[str, Any], graph: TensorGraph, expected: Sequence[Any], rtol: float | None) -> None:
    for (key, _), want in zip(graph.outputs, expected, strict=True):
        value = got[key]
        assert value.shape == want.shape, (key, value.shape, want.shape)
        assert value.dtype == want.dtype, (key, value.dtype, want.dtype)
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(value, want, key)
        else:
            tolerance = TOLERANCE[want.dtype.name] if rtol is None else rtol
            np.testing.assert_allclose(value.astype(np.float64), want.astype(np.float64), tolerance, tolerance,
                                       err_msg=key)


def check_state(step: Callable[..., Any], variables: Sequence[Any], *arrays: Any, rtol: float | None = None,
                opaque: Sequence[str] = ()) -> Traced:
    """Asserts that a step that assigns `variables` leaves them as TensorFlow does."""
    arrays = tuple(np.asarray(a) for a in arrays)
    traced = trace(step, *[tf.TensorSpec(a.shape, a.dtype) for a in arrays])
    unexpected = {k: v for k, v in traced.opaque().items() if not any(f"({op})" in k for op in opaque)}
    assert not unexpected, unexpected
    names = [t.name for t in traced.concrete.graph.inputs]
    values = dict(zip(names, arrays, strict=False))
    handle_of: dict[int, str] = {}
    for name, captured in zip(names[len(arrays):], traced.concrete.captured_inputs, strict=True):
        if captured.dtype == tf.resource:
            variable = next(v for v in variables if v.handle is captured)
            handle_of[id(variable)] = name
            values[name] = variable.numpy()
        else:
            values[name] = captured.numpy()
    outputs, read = [], set()
    for node in traced.imported.nodes.values():
        for handle, value in node.writes.items():
            outputs.append((handle, Builder().assign(handle, value)))
            assert handle not in read, "this helper runs one write per variable"
            read.add(handle)
    graph = TensorGraph("step", outputs)
    graph = bind(graph, {n: v.shape for n, v in values.items()})
    got = interpret(graph, values)
    again = run_with_tensorflow(graph, values)
    traced.concrete(*[tf.constant(a) for a in arrays])
    changed = [v for v in variables if handle_of.get(id(v)) in got]
    assert len(changed) == len(outputs)
    order = {handle_of[id(v)]: v.numpy() for v in changed}
    expected = [order[key] for key, _ in graph.outputs]
    compare(got, graph, expected, rtol)
    compare(again, graph, expected, rtol)
    return traced
