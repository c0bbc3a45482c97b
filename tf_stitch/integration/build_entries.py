"""What the report says of one compiled region: its build, and its kernels by the user's node names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.integration.report import BuildEntry, KernelEntry
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir.cost import buffer_bytes
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.pipeline import CompiledRegion
from tf_stitch.planning.cost_model import predict_us


class Place(NamedTuple):
    """A region's number, and which of its executables."""

    region: int
    build: int


def names_of(graph: TensorGraph) -> tuple[str, ...]:
    """The user's node behind every node, in the graph's order: graphs of equal structure pair up by it."""
    return tuple(node.loc.node for node in graph.nodes())


def build_entries(place: Place, shapes: Sequence[Sequence[int]], compiled: CompiledRegion, device: DeviceSpec,
                  cached: bool, own_names: Mapping[str, str]) -> Iterator[BuildEntry | KernelEntry]:
    """The entries of one executable.

    Args:
        own_names: names in the region it was compiled for -> names in this region, of equal structure.
    """
    solver = asdict(compiled.plan.solver) if compiled.plan.solver else None
    yield BuildEntry(place.region, [list(s) for s in shapes], cached, solver, dict(compiled.seconds))
    for kernel in compiled.kernels:
        schedule = kernel.schedule
        nodes = dict.fromkeys(own_names.get(n.loc.node, n.loc.node) for n in schedule.pattern.nodes if n.loc.node)
        yield KernelEntry(
            region=place.region, build=place.build, device="gpu" if device.is_gpu else "cpu",
            symbol=kernel.program.title[:60], rule=schedule.rule.value,
            domain=[int(schedule.domain.rows), int(schedule.domain.cols)], nodes=list(nodes),
            node_schemes=_node_schemes(kernel, own_names),
            schemes=dict(Counter(scheme.value for scheme in schedule.schemes.values())),
            predicted_us=round(predict_us(kernel.program, device), 3), bytes=int(buffer_bytes(kernel.program)))


def _node_schemes(kernel: LoweredKernel, own_names: Mapping[str, str]) -> dict[str, str]:
    """Schemes of each user's node; those of its several values joined by "+"."""
    found: dict[str, dict[str, None]] = {}
    for node, scheme in kernel.schedule.schemes.items():
        if node.loc.node:
            found.setdefault(own_names.get(node.loc.node, node.loc.node), {})[scheme.value] = None
    return {name: "+".join(schemes) for name, schemes in found.items()}
