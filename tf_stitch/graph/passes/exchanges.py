"""A sum over two GPUs that reach each other's memory becomes an exchange and an addition. Copy engines exchange, beside
kernels that lose nothing by it; the region that reads the sum adds, as it reads. Both replicas get the same bits: an
addition of two is the same in either order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor
from tf_stitch.graph.graph_edit import GraphEdit
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.origin import set_origin
from tf_stitch.graph.passes.all_reduces import ALL_REDUCE
from tf_stitch.graph.state import GraphState

EXCHANGE = "StitchExchange"


def exchange_between_two(state: GraphState, are_peers: Callable[[int, int], bool]) -> GraphState:
    """The graph with a StitchExchange and additions in the place of each StitchAllReduce of two peers: of the parts,
    where the sum is split, so that each is added where it is read.

    Args:
        are_peers: whether two GPUs, by their numbers, can read each other's memory. All members of a sum get the same
            answer.
    """
    edit = GraphEdit(state)
    sums, preserved = [node for node in edit.order if node.op == ALL_REDUCE], state.preserved
    stay = {_group(node) for node in sums if node.name in preserved}  # all members of a sum are alike
    found = [node for node in sums if _group(node) not in stay and _of_peers(node, are_peers)]
    for node in found:
        exchange = NodeDef()
        exchange.CopyFrom(node)
        exchange.name, exchange.op = edit.free_name(f"{node.name}/tfs_exchange"), EXCHANGE
        _put(edit, exchange, node, edit.types(node.name))
        edit.gone.add(node.name)
        edit.renamed[f"^{node.name}"] = f"^{exchange.name}"  # those of a device stay one behind the other
        readers = [reader for reader in edit.users.get(node.name, [])
                   if f"{node.name}:0" in map(canonical_tensor, reader.input)]
        if [reader.op for reader in readers] == ["SplitV"] and readers[0].name not in preserved:
            _add_parts(edit, node, exchange.name, readers[0])
        else:
            edit.renamed[f"{node.name}:0"] = _add(edit, node, node.input[0], exchange.name, edit.types(node.name)[0])
    return edit.applied() if found else state


def _of_peers(node: NodeDef, are_peers: Callable[[int, int], bool]) -> bool:
    gpus = [int(device.rpartition(":")[2]) for device in _group(node).split(";")]
    return len(gpus) == 2 and are_peers(*gpus)


def _group(node: NodeDef) -> str:
    return str(node.attr["group"].s.decode())


def _add_parts(edit: GraphEdit, node: NodeDef, exchange: str, split: NodeDef) -> None:
    """Splits what was given and what was received as the sum is, and adds each pair of parts."""
    types = edit.types(split.name)
    halves = []
    for name, whole in (("given", node.input[0]), ("received", exchange)):
        half = NodeDef()
        half.CopyFrom(split)
        half.name, half.input[0] = edit.free_name(f"{split.name}/tfs_{name}"), whole
        _put(edit, half, split, types)
        halves.append(half.name)
    given, received = halves
    for i, kind in enumerate(types):
        edit.renamed[f"{split.name}:{i}"] = _add(edit, split, f"{given}:{i}", f"{received}:{i}", kind, f"_{i}")
    edit.gone.add(split.name)
    edit.renamed[f"^{split.name}"] = f"^{exchange}"


def _add(edit: GraphEdit, node: NodeDef, one: str, other: str, kind: OutputType, number: str = "") -> str:
    """The tensor that is the sum of two, as `node` has one."""
    total = NodeDef(name=edit.free_name(f"{node.name}/tfs_sum{number}"), op="AddV2", device=node.device)
    total.input[:] = [one, other]
    total.attr["T"].type = kind[0]
    _put(edit, total, node, [kind])
    return f"{total.name}:0"


def _put(edit: GraphEdit, made: NodeDef, node: NodeDef, types: Sequence[OutputType]) -> None:
    """A new node in the place of another."""
    made.attr.pop("_output_shapes", None)
    set_origin(made, [node])
    edit.new.append(made)
    edit.new_types[made.name] = list(types)
