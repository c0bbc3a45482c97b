"""While ops that call functions become loops of Enter, Merge, Switch, NextIteration and Exit, which TensorFlow makes of
most before it places nodes. It leaves others (those of tf.nn.ctc_loss), and runs two functions in each iteration."""

from __future__ import annotations

from collections.abc import Collection

from tensorflow import bool as tf_bool
from tensorflow import int32
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.attributes import NodeAttrs
from tf_stitch.frontend.tensorflow.control_flow import WHILES
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.loops.function_inlining import FunctionOf, Inliner
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.rewired_graph import rewired_graph
from tf_stitch.graph.state import GraphState


def lower_loops(state: GraphState, function_of: FunctionOf, but: Collection[str] = ()) -> LoopChange:
    """Puts loops in the place of While ops, whose names are those of the loops' frames.

    Args:
        but: names of ops to leave alone, without a word.
    """
    graph_def, types_of = state.graph_def, state.types_of
    ops = [node for node in graph_def.node if node.op in WHILES and node.name not in but]
    if not ops:
        return LoopChange(state)
    read = {canonical_tensor(t) for node in graph_def.node for t in node.input if not t.startswith("^")}
    names = {node.name for node in graph_def.node}
    new: list[NodeDef] = []
    new_types: dict[str, list[OutputType]] = {}
    renamed: dict[str, str] = {}
    stay: dict[str, str] = {}
    for op in ops:
        try:
            if NodeAttrs(op).is_for_xla():
                raise UnsupportedError("XLA compiles it")
            inliner = Inliner(op.device, function_of)
            now = _lower(op, inliner, read)
            if taken := names & inliner.types.keys():
                raise UnsupportedError(f"a node is called {min(taken)}")
            if op.name in state.preserved:  # a function waits for it: it keeps a state, for all that TensorFlow knows
                inliner.add(NodeDef(name=op.name, op="NoOp", input=[now.pop(f"^{op.name}")]), ())
            renamed |= now
        except UnsupportedError as error:
            stay[op.name] = error.message
            continue
        new += inliner.nodes
        new_types |= inliner.types
    gone = {op.name for op in ops} - set(stay)
    after = state.with_graph(rewired_graph(graph_def, gone, new, renamed),
                             lambda name: new_types[name] if name in new_types else types_of(name))
    return LoopChange(after, dict.fromkeys(gone), stay)


def _lower(op: NodeDef, graph: Inliner, read: Collection[str]) -> dict[str, str]:
    """Adds a loop's nodes; what is in the place of the op's results, and of itself for who waits for it.

    Args:
        read: tensors that somebody reads.
    """
    name, dtypes = op.name, list(op.attr["T"].list.type)
    initial = [canonical_tensor(t) for t in op.input if not t.startswith("^")]
    waits = [t for t in op.input if t.startswith("^")]

    def add(kind: str, label: str, inputs: list[str], dtype: int, others: tuple[int, ...] = ()) -> str:
        node = NodeDef(name=f"{name}/{label}", op=kind, input=inputs)
        if kind != "LoopCond":
            node.attr["T"].type = dtype
        if kind == "Enter":
            node.attr["frame_name"].s = name.encode()
            node.attr["parallel_iterations"].i = op.attr["parallel_iterations"].i or 10
        if kind == "Merge":
            node.attr["N"].i = 2
        return graph.add(node, (dtype, *others))

    enters = [add("Enter", f"enter_{k}", [t, *waits], dtype) for k, (t, dtype) in enumerate(zip(initial, dtypes,
                                                                                               strict=True))]
    merges = [add("Merge", f"merge_{k}", [enters[k], f"{name}/next_{k}"], dtype, (int32.as_datatype_enum,))
              for k, dtype in enumerate(dtypes)]
    [goes_on] = graph.inline(op.attr["cond"].func.name, f"{name}/cond", merges, f"{name}/merge_0")
    condition = add("LoopCond", "condition", [goes_on], tf_bool.as_datatype_enum)
    switches = [add("Switch", f"switch_{k}", [merges[k], condition], dtype, (dtype,))
                for k, dtype in enumerate(dtypes)]
    values = [f"{name}/switch_{k}:1" for k in range(len(dtypes))]
    add("Identity", "pivot", values[:1], dtypes[0])
    back = graph.inline(op.attr["body"].func.name, f"{name}/body", values, f"{name}/pivot")
    passes = {f"{node.name}:0": canonical_tensor(node.input[0]) for node in graph.nodes if node.op == "Identity"}
    now: dict[str, str] = {}
    for k, dtype in enumerate(dtypes):
        add("NextIteration", f"next_{k}", [back[k]], dtype)
        last = back[k]
        while last in passes:
            last = passes[last]
        if last == values[k]:  # nobody need leave the loop with it
            now[f"{name}:{k}"] = initial[k]
        elif f"{name}:{k}" in read:
            now[f"{name}:{k}"] = add("Exit", f"exit_{k}", [switches[k]], dtype)
    exits = [tensor for tensor in now.values() if tensor.startswith(f"{name}/exit_")]
    if not exits:
        raise UnsupportedError("nobody reads what it gives")
    return now | {f"^{name}": f"^{exits[0].partition(':')[0]}"}
