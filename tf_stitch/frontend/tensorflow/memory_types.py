"""What TensorFlow's GPU kernels read and hand out in host memory: what their registrations say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tensorflow.core.framework.kernel_def_pb2 import KernelDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.framework import kernels, op_def_registry


def results_on_host(node: NodeDef) -> bool:
    """Whether the kernel that runs a node on a GPU has a result in host memory; False if there is no such kernel."""
    fitting = _fitting(node)
    on_host = fitting[0].host_memory_arg if fitting else ()
    return bool(on_host) and any(result.name in on_host for result in op_def_registry.get(node.op).output_arg)


def reads_on_host(node: NodeDef) -> bool:
    """Whether the kernel that runs a node on a GPU takes all inputs from host memory."""
    fitting = _fitting(node)
    return bool(fitting) and all(arg.name in fitting[0].host_memory_arg
                                 for arg in op_def_registry.get(node.op).input_arg)


def has_gpu_kernel(node: NodeDef) -> bool:
    """Whether TensorFlow can run a node on a GPU."""
    return bool(_fitting(node))


def _fitting(node: NodeDef) -> tuple[KernelDef, ...]:
    """Kernels that a GPU may run a node with, the one that it does first."""
    op = op_def_registry.get(node.op)
    if op is None:
        return ()
    return _taking(node.op, tuple((attr.name, node.attr[attr.name].type if attr.name in node.attr
                                   else attr.default_value.type) for attr in op.attr if attr.type == "type"))


@cache  # a graph has many nodes, of few ops and types; cast has a kernel for each pair of types
def _taking(op: str, types: tuple[tuple[str, int], ...]) -> tuple[KernelDef, ...]:
    return tuple(kernel for kernel in _gpu_kernels(op) if _takes(kernel, dict(types)))


@cache
def _gpu_kernels(op: str) -> tuple[KernelDef, ...]:
    """A GPU's own first, then those for any device."""
    found = [k for k in kernels.get_registered_kernels_for_op(op).kernel if k.device_type in ("GPU", "DEFAULT")]
    return tuple(sorted(found, key=lambda k: (k.device_type != "GPU", -k.priority)))


def _takes(kernel: KernelDef, types: Mapping[str, int]) -> bool:
    return all(types.get(c.name) in c.allowed_values.list.type for c in kernel.constraint)
