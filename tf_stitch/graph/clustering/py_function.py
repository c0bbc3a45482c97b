"""Regions without the native op: TensorFlow calls back into Python. Right everywhere, slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.ops import script_ops

from tf_stitch.frontend.tensorflow.dtypes import to_enum
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.graph.clustering.stitch_node import input_types

_keep: list[Callable[..., Any]] = []  # TensorFlow holds the functions weakly


def py_function_node(name: str, region: RegionGraph, function: Callable[..., list[NDArray[Any]]], device: str,
                     controls: Sequence[str]) -> NodeDef:
    """A PyFunc node on the CPU; TensorFlow copies tensors to and from other devices."""
    _keep.append(function)
    inputs = [*region.inputs, *(f"^{c}" for c in controls)]
    node = NodeDef(name=name, op="PyFunc", device=task_cpu(device), input=inputs)
    node.attr["token"].s = script_ops._py_funcs.insert(function).encode()
    node.attr["Tin"].list.type.extend(input_types(region))
    node.attr["Tout"].list.type.extend(to_enum(n.type.dtype) for _, n in region.graph.outputs)
    return node


def task_cpu(device: str) -> str:
    """The CPU of the same task: every task has one."""
    head, _, _ = device.partition("/device:")
    return f"{head}/device:CPU:0" if device else ""
