"""Counts and times what ran, by class, from TensorFlow's own profiler: memory-intensive kernels, library calls, copies.

On a GPU, kernels and copies on the device. On a CPU, TensorFlow's ops and XLA's thunks; a region's op counts as what it
holds by the report of tf_stitch. TensorFlow's profiler leaves out ops that its executor has found to take less than
8,000 cycles, so a CPU's counts are of the larger ones.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.benchmark.device_time import covered

CLASSES = ("memory", "library", "copies")
LISTED = 100
"""Kernels that are listed one by one, the longest first."""

_LIBRARY_KERNEL = re.compile(r"gemm|gemv|cublas|cudnn|cutlass|xmma|conv(?!er)|splitK|dot_kernel|implicit|winograd",
                             re.I)
_COPY = re.compile(r"memcpy|memset|^copy", re.I)
_LIBRARY_OP = re.compile(r"MatMul|Conv\d|Convolution|_Mkl.*(MatMul|Conv)|Einsum|CudnnRNN")
_LIBRARY_THUNK = re.compile(r"^(dot|convolution|custom-call|MatMul|Conv|onednn|ynn)", re.I)
_REGION = re.compile(r"^tf_stitch_(\d+)/")

_NO_WORK = frozenset({
    "Const", "Placeholder", "_Arg", "_Retval", "NoOp", "Identity", "IdentityN", "ReadVariableOp", "VarHandleOp",
    "StitchHandle", "Shape", "ShapeN", "Rank", "Size", "Reshape", "Squeeze", "ExpandDims", "StopGradient",
    "PreventGradient",
    "BroadcastGradientArgs", "Enter", "Exit", "Merge", "Switch", "NextIteration", "LoopCond", "ControlTrigger",
    "_Send", "_Recv", "_HostSend", "_HostRecv", "If", "StatelessIf", "While", "StatelessWhile", "PartitionedCall",
    "StatefulPartitionedCall", "EmptyTensorList", "TensorListReserve", "TensorListLength", "TensorListElementShape",
    "TensorListGetItem", "TensorListSetItem", "TensorListPushBack", "TensorListPopBack",
})  # fmt: skip
"""Ops that launch nothing: they hand on values or handle sizes."""

_ARCHIVE = "**/*.xplane.pb"
_OCCUPANCY = re.compile(r"occ_pct:([\d.]+)")


@dataclass
class Events:
    """Events of one name.

    Attributes:
        us: microseconds in all.
        occupancy: what part of a GPU's threads its launch configuration allows, in percent.
    """

    count: int = 0
    us: float = 0.0
    occupancy: float | None = None


class Classes:
    """Counts and microseconds by class; on a CPU, runs by region beside them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.us: dict[str, float] = defaultdict(float)
        self.regions: Counter[str] = Counter()

    def add(self, kind: str, events: Events) -> None:
        self.counts[kind] += events.count
        self.us[kind] += events.us


def profiled(step: Callable[[], object], steps: int) -> dict[str, Any]:
    """What `steps` steps ran, per step.

    Returns:
        "device_us": microseconds in which a GPU works, on whatever streams; "classes": class -> count, without regions
        on a CPU; "class_us": class -> microseconds, regions among the memory-intensive; "regions": region -> how often
        its op ran on a CPU; "kernels" and "library": memory-intensive kernels and those of libraries on a GPU, the
        longest first, [name, count, microseconds, occupancy in percent or None].
    """
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        # Level 3: at 2, TensorFlow leaves out even more of the quick ops.
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3, python_tracer_level=0)
        with tf.profiler.experimental.Profile(folder, options):
            for _ in range(steps):
                step()
        spaces = _spaces(Path(folder))
    planes = _planes(spaces)
    devices = [events for name, events in planes.items() if name.startswith("/device:GPU")]
    classes = Classes()
    for plane in devices:
        for name, events in plane.items():
            classes.add(kernel_class(name), events)
    if not devices:
        host = planes.get("/host:CPU", {})
        for name, events in host.items():
            count_host(name, events, host, classes)
    return {"device_us": sum(covered(_intervals(plane)) for plane in spaces if _is_gpu(plane)) / steps,
            "classes": {c: classes.counts[c] / steps for c in CLASSES},
            "class_us": {c: classes.us[c] / steps for c in CLASSES},
            "regions": {region: count / steps for region, count in classes.regions.items()},
            "kernels": _longest(devices, "memory", steps), "library": _longest(devices, "library", steps)}  # fmt: skip


def _longest(devices: Sequence[Mapping[str, Events]], kind: str, steps: int) -> list[list[Any]]:
    """Of a class's kernels on all devices [name, count, microseconds, occupancy], per step."""
    found = [[name, events.count / steps, events.us / steps, events.occupancy]
             for plane in devices for name, events in plane.items() if kernel_class(name) == kind]  # fmt: skip
    return sorted(found, key=lambda kernel: -kernel[2])[:LISTED]


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


def count_host(name: str, events: Events, all_names: Collection[str], classes: Classes) -> None:
    """Adds the events of one name on a CPU to the class, or the region, that they belong to."""
    node, _, op = name.rpartition(":")
    if f"end: {name}" in all_names:  # one of XLA's thunks
        if not name.startswith(("while", "call", "conditional")):
            kind = "copies" if _COPY.search(name) else "library" if _LIBRARY_THUNK.match(name) else "memory"
            classes.add(kind, events)
        return
    if not node or not re.fullmatch(r"_?[A-Z]\w*", op) or " " in name or node.endswith(":"):
        return
    if op in ("StitchKernel", "StitchCall"):  # steps of a region, which is counted itself
        return
    region = _REGION.match(node)
    if op.startswith("Stitch") and region:
        classes.regions[region[1]] += events.count
        classes.us["memory"] += events.us
    elif _LIBRARY_OP.search(op):
        classes.add("library", events)
    elif op not in _NO_WORK:
        classes.add("memory", events)


def _spaces(folder: Path) -> list[Any]:
    """All XPlanes of a profile."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    return [plane for path in folder.glob(_ARCHIVE)
            for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes]


def _planes(spaces: Sequence[Any]) -> dict[str, dict[str, Events]]:
    """Plane -> name of an event -> its events."""
    planes: dict[str, dict[str, Events]] = {}
    for plane in spaces:
        add_plane(plane, planes.setdefault(plane.name, {}))
    return planes


def _is_gpu(plane: Any) -> bool:
    return bool(plane.name.startswith("/device:GPU"))


def _intervals(plane: Any) -> Iterator[tuple[float, float]]:
    """Begin and end of each event of a GPU's streams, in microseconds."""
    for line in plane.lines:
        if line.name.startswith("Stream"):
            for event in line.events:
                begin = line.timestamp_ns / 1e3 + event.offset_ps / 1e6
                yield begin, begin + event.duration_ps / 1e6


def add_plane(plane: Any, found: dict[str, Events]) -> None:
    """Adds the events of an XPlane to those of their names."""
    for line in plane.lines:
        if _is_gpu(plane) and not line.name.startswith("Stream"):
            continue  # lines that TensorFlow derives from the streams
        for event in line.events:
            events = found.setdefault(plane.event_metadata[event.metadata_id].name, Events())
            events.count += 1
            events.us += event.duration_ps / 1e6
            if events.occupancy is None:
                events.occupancy = _occupancy(plane, event)


def _occupancy(plane: Any, event: Any) -> float | None:
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == "kernel_details":
            text = stat.str_value or plane.stat_metadata[stat.ref_value].name
            found = _OCCUPANCY.search(text)
            return float(found[1]) if found else None
    return None
