"""Runs cases in TensorFlow, one graph of all of them, and as kernels for CPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import tensorflow as tf

from tests.differential.every_op.case import Array, Case
from tests.differential.every_op.trace import Traced, fetched, others, trace
from tests.differential.runner import LIGHT, add_written, cache, compiled, results_by_key
from tests.frontend.check import types_of_graph
from tf_stitch.device.spec import CPU
from tf_stitch.errors import StitchError
from tf_stitch.frontend.tensorflow.importer import SHAPE_ARITHMETIC, ImportedGraph, import_graph
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.ir.bind import bind
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, key_of
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import AssignAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.libraries.cudnn import CUDNN
from tf_stitch.libraries.gemm import GEMM
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_run import HostExecutable
from tf_stitch.targets import registry
from tf_stitch.targets.cpu import CPU_TARGET

tf1 = tf.compat.v1
_WITH_CONVOLUTIONS = (replace(CPU_TARGET, libraries=(GEMM, CUDNN)),)
"""CPUs as if they had a library of convolutions, whose calls NumPy computes."""
T = TypeVar("T")


@dataclass
class Result:
    """One tensor of a case: what TensorFlow computes, what kernels do, and what the IR means in NumPy.

    Attributes:
        what: "output 0", "gradient of x", "variable m".
        others: what TensorFlow computes of the same numbers in other ways: of halves in float32 and rounded, as kernels
            do, and see `differences`.
        refused: why the op stays TensorFlow's; nothing is computed then.
    """

    case: Case
    what: str
    want: Array
    others: list[Array] = field(default_factory=list)
    refused: str = ""
    got: Array | None = None
    meaning: Array | None = None

    @property
    def is_gradient(self) -> bool:
        return self.what.startswith("gradient")

    def __str__(self) -> str:
        return f"{self.case.name}, {self.what}"


def as_in_tensorflow(function: Callable[[], T]) -> T:
    """The result of a function in a thread of TensorFlow's, which flush subnormal numbers to zero."""
    results: list[T] = []
    errors: list[Exception] = []

    def call() -> np.int32:
        try:
            results.append(function())
        except Exception as error:  # raised below, as it is
            errors.append(error)
        return np.int32(0)

    with tf.Graph().as_default(), tf1.Session() as session:
        session.run(tf.numpy_function(call, [], tf.int32))
    if errors:
        raise errors[0]
    return results[0]


def run_cases(cases: Sequence[Case]) -> list[Result]:
    """Every result of every case. Ops of one name are one region."""
    graph = tf.Graph()
    with graph.as_default():
        traced = [trace(case, str(index)) for index, case in enumerate(cases)]
        apart = [[trace(other, f"{index}o") for other in others(case)] for index, case in enumerate(cases)]
    imported = _imported(graph, {f"c{index}": case.device for index, case in enumerate(cases)})
    nodes = [_values(t, imported) for t in traced]
    leaves = sorted({key_of(leaf) for found in nodes for node in found.values() if node is not None
                     for leaf in TensorGraph("", [("o", node)]).inputs() if leaf.kind is OpKind.INPUT})
    every = [*traced, *(t for found in apart for t in found)]
    fed = {tensor: value for t in every for tensor, value in t.fed.items()}
    with tf1.Session(graph=graph, config=_session_config()) as session:
        session.run([v.initializer for t in every for v in t.variables.values()])
        session.run([t.op for t in every if t.variables], fed)
        values, at_leaves = session.run(([fetched(t) for t in every], leaves), fed)
    computed = {id(t): found for t, found in zip(every, values, strict=True)}
    given = dict(zip(leaves, at_leaves, strict=True)) | _before(traced)
    results: list[Result] = []
    regions: dict[str, list[tuple[Result, Node]]] = {}
    for t, found, wide in zip(traced, nodes, apart, strict=True):
        for what, value in computed[id(t)].items():
            result = Result(t.case, what, value, [_rounded(computed[id(o)][what], value) for o in wide])
            results.append(result)
            node = found[what]
            if node is None or (node.kind is OpKind.INPUT and key_of(node) == t.outputs[what].name):
                _explain(result, t, imported)
            else:
                regions.setdefault(t.case.op, []).append((result, node))
    _run_regions(regions, given)
    return results


def _imported(graph: Any, device_of: Mapping[str, str]) -> ImportedGraph:
    """The graph as if nodes under a name were placed on a device."""
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        node.device = device_of.get(node.name.partition("/")[0], "")
    library_on = dict.fromkeys(("CPU", "GPU"), Matmuls.ALL_AND_CONVOLUTIONS)
    return import_graph(graph_def, types_of_graph(graph), library_on=library_on)


def _before(traced: Sequence[Traced]) -> dict[str, Array]:
    """Values of variables, by handle."""
    return {variable.handle.name: t.case.inputs[argument].value
            for t in traced for argument, variable in t.variables.items()}


def _rounded(x: Array, like: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(like.dtype)


def _explain(result: Result, t: Traced, imported: ImportedGraph) -> None:
    """Of what is no IR value: what the importer knows of it, or why it stays TensorFlow's."""
    if result.what.startswith("variable"):
        result.refused = imported.nodes[t.op.name].reason or "nothing is written"
        return
    tensor = t.outputs[result.what]
    reason, static = imported.nodes[tensor.op.name].reason, imported.statics.get(tensor.name)
    if reason == SHAPE_ARITHMETIC and static is not None:
        result.got = result.meaning = np.array(static.tolist(), result.want.dtype)
    else:
        result.refused = reason or "no value"


def _session_config() -> Any:
    """Runs each op by its own kernel: nothing is folded or fused."""
    config = tf1.ConfigProto(intra_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config


def _values(t: Traced, imported: ImportedGraph) -> dict[str, Node | None]:
    found: dict[str, Node | None] = {}
    for what, output in t.outputs.items():
        if isinstance(output, tf.Tensor):
            found[what] = imported.value(output.name)
        else:
            handle = output.handle.name
            value = imported.nodes[t.op.name].writes.get(handle)
            found[what] = None if value is None else Builder().assign(handle, value)
    return found


def _static(op: str, nodes: Sequence[Node], given: Mapping[str, Array]) -> TensorGraph:
    region = TensorGraph(op, [(n.attrs.handle if isinstance(n.attrs, AssignAttrs) else f"o{i}", n)
                              for i, n in enumerate(nodes)])
    return bind(region, {key_of(n): given[key_of(n)].shape for n in region.inputs()})


def _run_regions(regions: Mapping[str, Sequence[tuple[Result, Node]]], given: Mapping[str, Array]) -> None:
    static = [_static(op, [node for _, node in found], given) for op, found in regions.items()]
    with ThreadPoolExecutor(2) as pool, patch.object(registry, "TARGETS", _WITH_CONVOLUTIONS):
        futures = []
        for region in static:
            built = compiled(region, CPU, solver="greedy", careful=0)  # plans are not the subject
            building = pool.submit(build_host, built.source, "native", cache(), LIGHT) if built.source else None
            futures.append((built, building))
        libraries = [(built, [] if future is None else [future.result()]) for built, future in futures]

    def run() -> None:
        for region, (built, library), found in zip(static, libraries, regions.values(), strict=True):
            values = add_written(region, dict(given))
            outs, state = HostExecutable(built.executable, *library).run(values, values)
            got = results_by_key(region, outs, state)
            meaning = interpret(region, values)
            for (key, _), (result, _) in zip(region.outputs, found, strict=True):
                result.got, result.meaning = got[key], meaning[key]

    as_in_tensorflow(run)


def outcome(case: Case) -> tuple[str, str]:
    """What TensorFlow says of a case whose kernel fails, and why kernels do not give a result instead; "" if they do.

    Raises:
        AssertionError: TensorFlow's kernel does not fail.
    """
    with tf.Graph().as_default() as graph:
        t = trace(replace(case, gradient=False), "0")
    with tf1.Session(graph=graph, config=_session_config()) as session:
        session.run([v.initializer for v in t.variables.values()])
        try:
            session.run([t.op, fetched(t)], t.fed)
        except tf.errors.OpError as error:
            said = str(error.message)
        else:
            raise AssertionError(f"{case.name}: TensorFlow computes it")
    try:
        return said, _why_no_kernel(t, graph)
    except StitchError as error:
        return said, str(error)


def _why_no_kernel(t: Traced, graph: Any) -> str:
    imported = _imported(graph, {})
    reason = imported.nodes[t.op.name].reason
    if reason is None:
        given = {p.name: value for p, value in t.fed.items()} | _before([t])
        _run_regions({t.case.op: [(Result(t.case, what, np.zeros(0)), node)
                                  for what, node in _values(t, imported).items() if node is not None]}, given)
    return reason or ""
