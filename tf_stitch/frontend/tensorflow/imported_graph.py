"""An imported graph: TensorFlow nodes in order, each with its IR values or the reason it has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tf_stitch.errors import SourceLoc, UnsupportedError
from tf_stitch.frontend.tensorflow.control_flow import MERGES, NEXT_ITERATIONS

if TYPE_CHECKING:  # `import tensorflow` loads this, not them
    from tf_stitch.frontend.tensorflow.node_context import Check
    from tf_stitch.ir.graph import Node
    from tf_stitch.ir.types import Shape


@dataclass
class ImportedNode:
    """One TensorFlow node.

    Attributes:
        inputs: data inputs as canonical tensor names, "node:index".
        control_inputs: names of nodes it has to follow; for the Exit of a loop every Enter too.
        outputs: IR value of each output; None if the IR has no type for it, or nobody may use it.
        reason: None if it was legalised, else why it stays a TensorFlow op.
        reads: handles of the resource variables whose values it reads (names of handle tensors).
        writes: handle -> the value the variable gets.
        weight: 0 for a node that costs nothing, else 1.
        private: data inputs that TensorFlow's op reads and the IR has no value for.
        ignored: float32 inputs that TensorFlow's op takes and does not look into.
        library: a region runs it by a library call.
        checks: what has to be checked where a GPU computes its values: no kernel does.
    """

    name: str
    op: str
    device: str
    inputs: tuple[str, ...]
    control_inputs: tuple[str, ...]
    outputs: tuple[Node | None, ...]
    reason: str | None
    reads: tuple[str, ...] = ()
    writes: dict[str, Node] = field(default_factory=dict)
    weight: int = 1
    private: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    library: bool = False
    checks: tuple[Check, ...] = ()


@dataclass
class ImportedGraph:
    """`nodes` in topological order over data and control edges (back edges of loops cut). `owner` gives the
    canonical name of the first TensorFlow output that has an IR value. `constant_handles` are resource variables that
    the graph reads and nothing else: all their reads give one value. `handles` maps tensors that carry a
    handle on (into a loop, a branch) to the tensor that made it. `data_sizes` are symbols of dimensions that the
    contents of a tensor decide (Unique, Where): they differ from step to step. `statics` holds the values of integer
    tensors as far as they are known. `variable_shapes` holds, by handle, what the graph says of variables."""

    nodes: dict[str, ImportedNode] = field(default_factory=dict)
    owner: dict[Node, str] = field(default_factory=dict)
    constant_handles: frozenset[str] = frozenset()
    handles: dict[str, str] = field(default_factory=dict)
    data_sizes: frozenset[str] = frozenset()
    statics: dict[str, NDArray[Any]] = field(default_factory=dict)
    variable_shapes: dict[str, Shape | None] = field(default_factory=dict)

    def value(self, tensor: str) -> Node | None:
        """IR value of a tensor ("node:index", canonical), None if it has none."""
        name, _, index = tensor.rpartition(":")
        outputs = self.nodes[name].outputs
        return outputs[int(index)] if int(index) < len(outputs) else None


def canonical_tensor(name: str) -> str:
    """ "node" -> "node:0"; "node:1" stays."""
    return name if ":" in name else f"{name}:0"


def producer_of(name: str) -> str:
    """The node an input comes from: "^a", "a:1" and "a" are all "a"."""
    return name.removeprefix("^").partition(":")[0]


def entrances(defs: Mapping[str, Any]) -> dict[str, list[str]]:
    """Exit -> every Enter of its loop. It waits for all of them through the back edge that graph algorithms cut:
    what follows a loop must not be merged with what goes into it."""
    enters: dict[str, list[str]] = {}
    for name, node in defs.items():
        if node.op in ("Enter", "RefEnter"):
            enters.setdefault(node.attr["frame_name"].s.decode(), []).append(name)
    exits = [name for name, node in defs.items() if node.op in ("Exit", "RefExit")] if enters else []
    return {name: enters[frame] for name in exits if (frame := _frame_left(defs, name)) is not None}


def _frame_left(defs: Mapping[str, Any], name: str) -> str | None:
    """The frame of an Exit, by the way its value came in."""
    depth, node, seen = 0, defs[name], set[str]()
    while node.name not in seen:
        seen.add(node.name)
        depth += node.op in ("Exit", "RefExit")
        if node.op in ("Enter", "RefEnter"):
            depth -= 1
            if depth == 0:
                return str(node.attr["frame_name"].s.decode())
        producers = [defs.get(edge.rpartition(":")[0] or edge) for edge in node.input if not edge.startswith("^")]
        node = next((p for p in producers if p is not None and p.op not in ("NextIteration", "RefNextIteration")), node)
    return None


def topological(defs: dict[str, Any]) -> Iterator[Any]:
    """Nodes after all they depend on; the edge from a NextIteration to its Merge is cut, loops are entered and their
    bodies run before they are left."""
    bodies = _back_edges(defs)
    extra = {name: enters + [back for enter in enters for back in bodies.get(enter, ())]
             for name, enters in entrances(defs).items()}  # fmt: skip
    state: dict[str, bool] = {}
    for root in defs:
        stack = [(root, iter(_dependencies(defs, root, extra)))] if root not in state else []
        state.setdefault(root, False)
        while stack:
            name, pending = stack[-1]
            for other in pending:
                if other not in state:
                    state[other] = False
                    stack.append((other, iter(_dependencies(defs, other, extra))))
                    break
                if not state[other]:
                    raise UnsupportedError("the graph has a cycle that is not a loop", SourceLoc(other, defs[other].op))
            else:
                state[name] = True
                stack.pop()
                yield defs[name]


def _back_edges(defs: Mapping[str, Any]) -> dict[str, list[str]]:
    """Enter -> the NextIterations that come back to its Merge."""
    found: dict[str, list[str]] = {}
    for node in defs.values():
        if node.op in MERGES:
            sources = [edge.rpartition(":")[0] or edge for edge in node.input if not edge.startswith("^")]
            backs = [s for s in sources if s in defs and defs[s].op in NEXT_ITERATIONS]
            for source in sources:
                if backs and source not in backs:
                    found.setdefault(source, []).extend(backs)
    return found


def _dependencies(defs: dict[str, Any], name: str, extra: Mapping[str, list[str]]) -> list[str]:
    found = list(extra.get(name, ()))
    for edge in defs[name].input:
        other = edge.lstrip("^").rpartition(":")[0] or edge.lstrip("^")
        if other not in defs:
            raise UnsupportedError(f"input {edge} is not a node of the graph", SourceLoc(name, defs[name].op))
        if not (defs[name].op in MERGES and defs[other].op in NEXT_ITERATIONS):
            found.append(other)
    return found
