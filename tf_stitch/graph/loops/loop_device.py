"""Where a while loop that becomes one op runs."""

from __future__ import annotations

from collections.abc import Callable

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame
from tf_stitch.graph.loops.enclosing_graph import EnclosingGraph
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.types import TensorType

_INTEGERS = (DType.I32, DType.I64, DType.BOOL)


def device_of(frame: LoopFrame, graph: EnclosingGraph, is_own: Callable[[str], bool]) -> str:
    """The device of a loop's nodes, one of this process. Beside a GPU whole numbers and conditions may be on a CPU,
    where TensorFlow's kernels for GPUs have them, too: the op runs all on the GPU.

    Args:
        is_own: whether a device is of this process.

    Raises:
        UnsupportedError: its nodes are on several devices, or on another process's.
    """
    if not all(is_own(node.device) for node in frame.nodes):
        raise UnsupportedError("its nodes are on a device of another process")
    gpus: set[str] = {node.device for node in frame.nodes if device_type(node.device) == "GPU"}
    others = [node for node in frame.nodes if node.device not in gpus]
    if len(gpus) > 1 or len({node.device for node in others if node.device or not gpus}) > 1:
        raise UnsupportedError("its nodes are on several devices")
    if not gpus:
        return str(frame.condition.device)
    for node in others:
        values = graph.imported.nodes[node.name].outputs
        if device_type(node.device) not in ("", "CPU") or any(
                v is not None and v.type.dtype not in _INTEGERS for v in values):
            raise UnsupportedError(f"its nodes are on several devices: {node.name} on {node.device}")
    return gpus.pop()


def is_split(device: str) -> bool:
    """Whether the host runs what decides about a loop, beside a body that does not wait for it."""
    return device_type(device) == "GPU"


def is_small(type_: TensorType) -> bool:
    """Whether the host may as well compute a tensor: a counter, a length, a condition."""
    return type_.dtype in _INTEGERS and type_.rank <= 1
