"""Counts what ran, by class, from TensorFlow's own profiler: memory-intensive kernels, library calls, copies.

On a GPU, kernels and copies on the device. On a CPU, TensorFlow's ops and XLA's thunks; a region's op counts as what it
holds by the report of tf_stitch.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

CLASSES = ("memory", "library", "copies")

_LIBRARY_KERNEL = re.compile(r"gemm|gemv|cublas|cudnn|cutlass|xmma|conv|splitK|dot_kernel|implicit|winograd", re.I)
_COPY = re.compile(r"memcpy|memset|^copy", re.I)
_LIBRARY_OP = re.compile(r"MatMul|Conv\d|Convolution|_Mkl.*(MatMul|Conv)|Einsum|CudnnRNN")
_LIBRARY_THUNK = re.compile(r"^(dot|convolution|custom-call|MatMul|Conv|onednn|ynn)", re.I)
_REGION = re.compile(r"^tf_stitch_(\d+)/")

_NO_WORK = frozenset({
    "Const", "Placeholder", "_Arg", "_Retval", "NoOp", "Identity", "IdentityN", "ReadVariableOp", "VarHandleOp",
    "Shape", "ShapeN", "Rank", "Size", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient",
    "BroadcastGradientArgs", "Enter", "Exit", "Merge", "Switch", "NextIteration", "LoopCond", "ControlTrigger",
    "_Send", "_Recv", "_HostSend", "_HostRecv", "If", "StatelessIf", "While", "StatelessWhile", "PartitionedCall",
    "StatefulPartitionedCall", "EmptyTensorList", "TensorListReserve", "TensorListLength", "TensorListElementShape",
    "TensorListGetItem", "TensorListSetItem", "TensorListPushBack", "TensorListPopBack",
})  # fmt: skip
"""Ops that launch nothing: they hand on values or handle sizes."""

_ARCHIVE = "**/*.xplane.pb"


def profiled(step: Callable[[], object], steps: int) -> dict[str, Any]:
    """What `steps` steps ran, per step.

    Returns:
        "classes": class -> count, without regions on a CPU; "regions": region -> how often its op ran on a CPU.
    """
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        with tf.profiler.experimental.Profile(folder, options):
            for _ in range(steps):
                step()
        planes = _planes(Path(folder))
    devices = {name: counts for name, counts in planes.items() if name.startswith("/device:GPU")}
    classes: Counter[str] = Counter()
    regions: Counter[str] = Counter()
    for counts in devices.values():
        for name, count in counts.items():
            classes[kernel_class(name)] += count
    if not devices:
        for name, count in planes.get("/host:CPU", Counter()).items():
            count_host(name, count, planes["/host:CPU"], classes, regions)
    return {"classes": {c: classes[c] / steps for c in CLASSES},
            "regions": {region: count / steps for region, count in regions.items()}}  # fmt: skip


def kernel_class(name: str) -> str:
    """The class of a kernel or copy on a GPU by its name."""
    if _COPY.search(name):
        return "copies"
    return "library" if _LIBRARY_KERNEL.search(name) else "memory"


def with_regions(counts: Mapping[str, Any], report: Mapping[str, Any] | None) -> dict[str, float]:
    """Class -> count per step, regions counted as the kernels of their last executable."""
    classes = dict(counts["classes"])
    held: dict[int, Counter[str]] = {}
    for kernel in (report or {}).get("kernels", []):
        held.setdefault(kernel["region"], Counter())[kernel["build"]] += 1
    for region, runs in counts["regions"].items():
        builds = held.get(int(region))
        classes["memory"] += runs * (builds[max(builds)] if builds else 1)
    return classes


def count_host(name: str, count: int, all_names: Counter[str], classes: Counter[str], regions: Counter[str]) -> None:
    """Adds `count` events of one name on a CPU to the class, or the region, that they belong to."""
    node, _, op = name.rpartition(":")
    if f"end: {name}" in all_names:  # one of XLA's thunks
        if not name.startswith(("while", "call", "conditional")):
            classes["copies" if _COPY.search(name) else "library" if _LIBRARY_THUNK.match(name) else "memory"] += count
        return
    if not node or not re.fullmatch(r"_?[A-Z]\w*", op) or " " in name or node.endswith(":"):
        return
    region = _REGION.match(node)
    if op.startswith("Stitch") and region:
        regions[region[1]] += count
    elif _LIBRARY_OP.search(op):
        classes["library"] += count
    elif op not in _NO_WORK:
        classes["memory"] += count


def _planes(folder: Path) -> dict[str, Counter[str]]:
    """Plane -> name of an event -> how often it happened."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    planes: dict[str, Counter[str]] = {}
    for path in folder.glob(_ARCHIVE):
        for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes:
            counts = planes.setdefault(plane.name, Counter())
            for line in plane.lines:
                if plane.name.startswith("/device:GPU") and not line.name.startswith("Stream"):
                    continue  # lines that TensorFlow derives from the streams
                for event in line.events:
                    counts[plane.event_metadata[event.metadata_id].name] += 1
    return planes
