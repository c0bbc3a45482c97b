"""Has each iteration of a lowered loop hand on values only where another one follows.

TensorFlow's executor ends a loop by dead values: in the last turn the Switches give none to the body. A value from
outside, by a constant Enter, is there in every turn; a NextIteration that nothing of a Switch reaches would go on for
ever. TensorFlow lets what makes such values wait for a node of the body; what is taken out of a loop waits for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_flow import MERGES, NEXT_ITERATIONS, SWITCHES
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of


def gate_iterations(nodes: Sequence[NodeDef]) -> NodeDef | None:
    """Lets each NextIteration that none of the loop's Switches reaches wait for one.

    Args:
        nodes: of one loop without branches and loops within it; NextIterations are changed in place.

    Returns:
        A new node that they wait for, if the loop has none; its type is that of its input.
    """
    switches = {node.name for node in nodes if node.op in SWITCHES}
    reached = _reached(nodes, {f"{name}:1" for name in switches})
    open_ones = [node for node in nodes if node.op in NEXT_ITERATIONS and node.name not in reached]
    if not open_ones or not switches:
        return None
    gate = next((node for node in nodes if node.op == "Identity" and node.name in reached
                 and producer_of(node.input[0]) in switches), None)
    new = None
    if gate is None:
        switch = next(node for node in nodes if node.name in switches)
        gate = new = NodeDef(name=f"{switch.name}/tfs_in_body", op="Identity", device=switch.device,
                             input=[f"{switch.name}:1"])
        gate.attr["T"].CopyFrom(switch.attr["T"])
    for node in open_ones:
        node.input.append(f"^{gate.name}")
    return new


def _reached(nodes: Sequence[NodeDef], tensors: set[str]) -> set[str]:
    """Nodes that within an iteration compute with these tensors, or wait for one that does."""
    merges = {node.name for node in nodes if node.op in MERGES}
    users: dict[str, list[str]] = {}
    for node in nodes:
        for edge in node.input:
            if edge.startswith("^"):
                users.setdefault(edge[1:], []).append(node.name)
            else:
                users.setdefault(canonical_tensor(edge), []).append(node.name)
                users.setdefault(producer_of(edge), []).append(node.name)
    pending = [user for tensor in tensors for user in users.get(tensor, ())]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found and name not in merges:
            found.add(name)
            pending += users.get(name, ())
    return found
