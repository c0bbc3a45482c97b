"""Tensors that a loop reads, or overwrites, row by row become lists of their rows: an op in the loop's place finds the
row of a counter by its address, and writes it where it is. TensorFlow looks rows up, and copies the tensor."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tensorflow import int32, make_tensor_proto
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_flow import NEXT_ITERATIONS
from tf_stitch.frontend.tensorflow.dtypes import DT_VARIANT
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of, topological
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame, loop_frames
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.loops.loop_cells import constant
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.loops.loop_row_uses import Place, RowUses
from tf_stitch.graph.state import GraphState

_INT32: int = int32.as_datatype_enum
_LIST: OutputType = (DT_VARIANT, ())


def list_rows(state: GraphState, but: Collection[str] = ()) -> LoopChange:
    """The graph with lists in its loops, but for those of these names."""
    after = state.copy_graph()
    lists, changed = _Lists(state.types_of), dict[str, None]()
    for name, frame in loop_frames(list(topological({node.name: node for node in after.node}))).items():
        if name not in but and isinstance(frame, LoopFrame) and lists.make(frame):
            changed[name] = None
    if not changed:
        return LoopChange(state)
    for node in after.node:
        node.input[:] = [lists.stacked.get(canonical_tensor(t), t) for t in node.input]
    after.node.extend(lists.new)
    return LoopChange(state.with_graph(after, lists.types), changed)


class _Lists:
    """Changes nodes of loops in place. `new` are nodes to add, `stacked` the tensors of lists that leave a loop."""

    def __init__(self, types_of: TypesOf) -> None:
        self._types_of = types_of
        self._new_types: dict[str, list[OutputType]] = {}
        self.new: list[NodeDef] = []
        self.stacked: dict[str, str] = {}

    def types(self, name: str) -> list[OutputType]:
        return self._new_types.get(name) or self._types_of(name)

    def make(self, frame: LoopFrame) -> bool:
        """Makes lists of what a loop uses row by row; whether there is such a thing."""
        loop, found = RowUses(frame, self.types), False
        counters: dict[tuple[str, int], str] = {}
        for variable in loop.variables.all:
            reads, write = loop.reads(variable), loop.write(variable)
            if write is None and not reads:
                continue
            dtype = self.types(variable.enter.name)[0][0]
            for node, place in reads:
                self._read(node, self._number(loop, place, counters, node.input[1]), loop.defs)
            if write is not None:
                self._write(write.node, self._number(loop, write.place, counters, write.index), write.item)
            self._carry(loop, variable, dtype)
            found = True
        return found

    def _read(self, gather: NodeDef, number: str, defs: dict[str, NodeDef]) -> None:
        dtype, axis = gather.attr["Tparams"].type, defs[producer_of(gather.input[2])]
        shape = NodeDef()
        shape.CopyFrom(axis)
        shape.name = f"{gather.name}/tfs_shape"
        shape.attr["value"].tensor.CopyFrom(make_tensor_proto(-1, int32))
        shape.attr["dtype"].type = _INT32
        self._add(shape, [(_INT32, ())])
        gather.op = "TensorListGetItem"
        gather.input[:] = [gather.input[0], number, shape.name, *gather.input[3:]]
        gather.attr.clear()
        gather.attr["element_dtype"].type = dtype

    def _write(self, update: NodeDef, number: str, item: str) -> None:
        dtype = update.attr["T"].type
        update.op = "TensorListSetItem"
        update.input[:] = [update.input[0], number, item, *update.input[3:]]
        update.attr.clear()
        update.attr["element_dtype"].type = dtype
        self._new_types[update.name] = [_LIST]

    def _carry(self, loop: RowUses, variable: LoopVariable, dtype: int) -> None:
        """Has the loop carry a list, which is made before it, and stacked behind it."""
        enter, whole = variable.enter, variable.initial
        whole_type = (dtype, self.types(producer_of(whole))[int(whole.rpartition(":")[2])][1])
        shape = constant(f"{enter.name}/tfs_shape", -1, enter)
        self._add(shape, [(_INT32, ())])
        rows = NodeDef(name=f"{enter.name}/tfs_rows", op="TensorListFromTensor", device=enter.device,
                       input=[whole, shape.name])
        rows.attr["element_dtype"].type, rows.attr["shape_type"].type = dtype, _INT32
        self._add(rows, [_LIST])
        enter.input[0] = rows.name
        for node in loop.chain(variable):
            node.attr["T"].type = DT_VARIANT
            second: dict[str, OutputType] = {"Merge": (_INT32, ()), "Switch": _LIST}
            self._new_types[node.name] = [_LIST, second[node.op]] if node.op in second else [_LIST]
        for exit_ in variable.exits:
            stack = NodeDef(name=f"{exit_.name}/tfs_stack", op="TensorListStack", device=exit_.device,
                            input=[f"{exit_.name}:0", shape.name])
            stack.attr["element_dtype"].type, stack.attr["num_elements"].i = dtype, -1
            self._add(stack, [whole_type])
            self.stacked[f"{exit_.name}:0"] = f"{stack.name}:0"

    def _number(self, loop: RowUses, place: Place, counters: dict[tuple[str, int], str], tensor: str) -> str:
        """The tensor that numbers a row: a counter, which gets one beside it that is always so much ahead."""
        if not place.more:
            return tensor
        key = (place.counter.merge, place.more)
        if key not in counters:
            counters[key] = self._ahead(loop, place)
        return counters[key]

    def _ahead(self, loop: RowUses, place: Place) -> str:
        counter, name = place.counter, f"{place.counter.merge}/tfs_ahead_{place.more}"
        merge, step = loop.defs[counter.merge], loop.defs[producer_of(counter.back)]
        switch = loop.defs[producer_of(counter.value)]
        back = next(loop.defs[producer_of(t)] for t in merge.input if loop.defs[producer_of(t)].op in NEXT_ITERATIONS)
        more = constant(f"{name}/more", place.more, counter.enter)
        self._add(more, [(_INT32, ())])
        start = NodeDef(name=f"{name}/start", op="AddV2", device=counter.enter.device,
                        input=[counter.initial, more.name])
        start.attr["T"].type = _INT32
        self._add(start, [(_INT32, ())])
        value = f"{name}/{switch.op}:1"
        inputs = {
            counter.enter.name: [start.name, *(t for t in counter.enter.input if t.startswith("^"))],
            merge.name: [f"{name}/{counter.enter.op}", f"{name}/{back.op}"],
            switch.name: [f"{name}/{merge.op}", switch.input[1]],
            step.name: [value if loop.variables.seen_through(t) == counter.value else t for t in step.input],
            back.name: [f"{name}/{step.op}"],
        }
        for node in (counter.enter, merge, switch, step, back):
            copy = NodeDef()
            copy.CopyFrom(node)
            copy.name, copy.input[:] = f"{name}/{node.op}", inputs[node.name]
            self._add(copy, self.types(node.name))
        return value

    def _add(self, node: NodeDef, types: Sequence[OutputType]) -> None:
        self.new.append(node)
        self._new_types[node.name] = list(types)
