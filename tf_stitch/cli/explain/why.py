"""Everything that is known of single ops: what runs them and why, and how their values reach their users."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from tf_stitch.cli.explain.rows import Check, Graph, Op
from tf_stitch.cli.explain.text import kernel_line

MEMORY = "memory"
"""How a value goes from one kernel to another, or to and from TensorFlow's ops."""
_MOST_USERS = 8


def answers(graph: Graph, glob: str) -> Iterator[str]:
    """A paragraph for every op whose name matches."""
    checks = {region.number: region.check for region in graph.regions}
    users: dict[int, list[Op]] = {}
    for op in graph.ops:
        for place in op.inputs:
            users.setdefault(place, []).append(op)
    for place, op in enumerate(graph.ops):
        if fnmatchcase(op.name, glob):
            yield f"{op.name} ({op.op}) in graph {graph.name}" + (f", made at {op.source}" if op.source else "")
            yield from _runs(op, checks.get(op.region) if op.region is not None else None)
            yield from _hands_on(op, users.get(place, []))
            yield ""


def edge_scheme(producer: Op, user: Op) -> str:
    """How a value gets from one op to another (AStitch, Table 1), and why: a scheme within a kernel, else memory."""
    together = {kernel.name for kernel in user.kernels}
    shared = [kernel for kernel in producer.kernels if kernel.name in together]
    for kernel in shared:
        if (producer.name, user.name) in kernel.edges:
            return ": ".join(kernel.edges[producer.name, user.name])
    for kernel in shared:  # simplified: the value that the user reads has another op's name
        if producer.name in kernel.node_schemes:
            return kernel.node_schemes[producer.name].rpartition("+")[2]
    return MEMORY


def _runs(op: Op, check: Check | None) -> Iterator[str]:
    if op.region is None:
        yield f"  TensorFlow runs it: {op.why}"
        return
    timed = f" ({check})" if check else ""
    yield f"  region {op.region}{timed}" + ("" if op.kernels else f", in no kernel: {op.why}")
    for kernel in op.kernels:
        yield f"  kernel {kernel_line(kernel)}"
        if kernel.template:
            yield f"    template (by {kernel.chosen_by}): {kernel.template}"
        if kernel.compositions:
            yield f"    composed by {', '.join(kernel.compositions)}"
        if others := [part for part in kernel.independent if op.name not in part]:
            yield f"    independent: it hands nothing to {len(others)} other parts, among them {others[0][0]}"


def _hands_on(op: Op, users: list[Op]) -> Iterator[str]:
    if op.kernels and users:
        shown = [f"{user.name} ({edge_scheme(op, user)})" for user in users[:_MOST_USERS]]
        more = [f"{len(users) - _MOST_USERS} more"] if len(users) > _MOST_USERS else []
        yield f"  its value goes to {', '.join(shown + more)}"
