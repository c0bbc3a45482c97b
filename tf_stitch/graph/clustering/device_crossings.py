"""Which nodes wait for another device. A region starts when all it reads is there: one that held a replica's backward
pass and the mean of all replicas' losses would wait for the other replicas' passes, and devices would run in turns."""

from __future__ import annotations

from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, ImportedNode, producer_of
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.graph.clustering.collectives import is_collective, nodes_before

SHARED = -1
"""The stage of small values that another device reads, too, and that wait for nothing large: as a step's number."""
SMALL_ELEMENTS = 1024
"""Of an op that is a matter of calls, at most: nobody need wait for it, nor is a kernel of it alone worth it."""


def device_stages(imported: ImportedGraph) -> dict[str, int]:
    """For each node, how often what it waits for changes the device, on the path where that is most often; or SHARED.
    Nodes of one region are of one stage. Small values, made of such alone, are there early and do not count; what the
    host computes for GPUs is handed on; a collective begins again. Empty if there is one device.
    """
    devices = _devices(imported)
    if len(set(devices.values())) < 2:
        return {}
    stages: dict[str, int] = {}
    late: set[str] = set()
    arrives: dict[str, dict[str, int]] = {}  # from which device, at which stage
    for node in imported.nodes.values():
        before = [name for name in nodes_before(node) if name in stages]
        if _takes_time(imported, node) or not late.isdisjoint(before):
            late.add(node.name)
        found: dict[str, int] = {}
        for device, stage in (item for name in before for item in arrives[name].items()):
            found[device] = max(stage, found.get(device, 0))
        here = devices.get(node.name)
        if is_collective(node):  # it ends when all devices are there: whatever changed the device before is past
            found.clear()
        stages[node.name] = max((stage + (here not in (device, None)) for device, stage in found.items()), default=0)
        arrives[node.name] = found if here is None else {here: stages[node.name]} if node.name in late else {}
    stages.update(dict.fromkeys(_shared(imported, devices, late), SHARED))
    return stages


def _devices(imported: ImportedGraph) -> dict[str, str]:
    """The devices that work side by side: GPUs, or CPUs if there are no GPUs."""
    types = {device_type(node.device) for node in imported.nodes.values()}
    kind = "GPU" if "GPU" in types else "CPU"
    return {node.name: node.device for node in imported.nodes.values() if device_type(node.device) == kind}


def _takes_time(imported: ImportedGraph, node: ImportedNode) -> bool:
    """Whether it computes more than a few elements of other values."""
    if not node.weight or all(imported.value(tensor) is None for tensor in node.inputs):
        return False
    values = (*node.outputs, *node.writes.values())
    return any(v is None or not v.type.is_static or v.type.numel > SMALL_ELEMENTS for v in values)


def _shared(imported: ImportedGraph, devices: dict[str, str], late: set[str]) -> set[str]:
    """Nodes that wait for nothing large and lead to another device by nodes of which the same is true."""
    elsewhere: dict[str, set[str]] = {}
    for node in reversed(imported.nodes.values()):
        here = devices.get(node.name)
        ends = {here} if here is not None else set()
        if node.name not in late:
            ends |= elsewhere.get(node.name, set())
        for tensor in node.inputs:
            elsewhere.setdefault(producer_of(tensor), set()).update(ends)
    return {name for name, ends in elsewhere.items() if name in devices and name not in late
            and imported.nodes[name].weight and not ends <= {devices[name]}}
