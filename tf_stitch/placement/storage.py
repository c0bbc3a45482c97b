"""Gives every value of a region its place: outputs, variables in place where that is safe, the rest in one arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node, TensorGraph, view_of
from tf_stitch.ir.op_attrs import AssignAttrs, ScatterAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import CALLED, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.libraries.call import BoundCall
from tf_stitch.placement.arena import Lifetime, live_bytes, plan_arena
from tf_stitch.placement.buffer_plan import BufferPlan, Work
from tf_stitch.placement.concurrency_levels import Touch
from tf_stitch.placement.executable import ALIGNMENT, BufferRef, Copy
from tf_stitch.placement.executable_format import Space, StateMode
from tf_stitch.placement.in_place import reuse_operands, update_input, update_variable
from tf_stitch.placement.liveness import needed
from tf_stitch.placement.memory_order import order_steps

SMALL_BYTES = 1 << 12
"""A variable's new value up to this size is copied over the old one in the end where it cannot be written there: a
fresh buffer would have another address in every call, and a CUDA graph's nodes hold addresses."""


def plan_buffers(graph: TensorGraph, kernels: Sequence[Work], inputs: tuple[str, ...],
                 variables: tuple[str, ...], packed: bool, order_bytes: int) -> BufferPlan:
    """As decide_storage and place_values."""
    return place_values(decide_storage(graph, kernels, inputs, variables, packed, order_bytes))


def decide_storage(graph: TensorGraph, kernels: Sequence[Work], inputs: tuple[str, ...],
                   variables: tuple[str, ...], packed: bool, order_bytes: int) -> BufferPlan:
    """Which values lie in outputs, in variables, and over an operand; what is copied in the end, since no kernel writes
    it there; and which kernels run at the same time. Nothing has a place in the arena yet.

    Args:
        kernels: in an order in which they can run.
        packed: kernels that do not depend on each other run at the same time, else one after the other.
        order_bytes: that another order has to save.
        inputs, variables: keys and handles in the op's order.
    """
    plan = BufferPlan(list(kernels), inputs, variables)
    output_number = 0
    copies = plan.copied
    live_out = [node for _, node in graph.outputs]
    for _, node in graph.outputs:
        if node.kind is not OpKind.ASSIGN:
            if not update_input(plan, node, output_number, live_out):
                _store_live_out(plan, copies, node, BufferRef(Space.OUTPUT, output_number))
            output_number += 1
    copied, by_calls = _copied_variables(graph), {
        node for w in kernels if isinstance(w, BoundCall) for node, mode in w.arguments if mode is k.Mode.WRITE}
    number = {handle: i for i, handle in enumerate(variables)}
    for _, node in graph.outputs:
        if isinstance(node.attrs, AssignAttrs):
            _assign(plan, copies, node, number[node.attrs.handle], copied, by_calls)
    steps = [[*_touches(plan, kernel), *_turns(graph, kernel)] for kernel in kernels]
    order = order_steps(steps, {node for _, node in copies}, packed, order_bytes)
    plan = replace(plan, kernels=[plan.kernels[i] for i in order.steps], levels=list(order.levels), writer={},
                   readers={})
    reuse_operands(plan, {node for _, node in copies})
    return plan


def with_lifetimes(decided: BufferPlan) -> BufferPlan:
    """Which values lie in the arena, and when: those that no other place takes. What is copied last is there to the
    end. Arguments and errors are those of place_values.
    """
    for node in decided.copying:
        if isinstance(node.attrs, ScatterAttrs) and node.attrs.rows_only:
            raise ScheduleError("rows alone of a tensor that lies elsewhere", node.loc)
    life: dict[Node, list[int]] = {}
    times = list(needed(decided.kernels, decided.levels))
    for mine in times:
        for node, mode, first, last in mine:
            memory = memory_of(node, decided)
            if node in decided.place or (mode is k.Mode.READ and memory not in life):
                continue
            life.setdefault(memory, []).extend((first, last))
    end = max((last for mine in times for _, _, _, last in mine), default=0)
    for _, node in decided.copied:
        if memory_of(node, decided) in life:
            life[memory_of(node, decided)].append(end)
    lives = {node: Lifetime(-(-max(int(node.type.nbytes), 1) // ALIGNMENT) * ALIGNMENT, min(at), max(at))
             for node, at in life.items()}
    return replace(decided, lives=lives, live_bytes=live_bytes(list(lives.values())))


def place_values(decided: BufferPlan) -> BufferPlan:
    """A place for every value, those in the arena by lifetimes.

    Args:
        decided: by decide_storage.

    Raises:
        ScheduleError: a kernel that writes rows alone of a tensor which cannot lie where it did before.
    """
    plan = with_lifetimes(decided)
    arena = plan_arena(list(plan.lives.values()))
    places = {node: BufferRef(Space.ARENA, offset) for node, offset in zip(plan.lives, arena.offsets, strict=True)}
    places |= {node: places[memory_of(node, plan)] for node in plan.reused}
    plan = replace(plan, place=plan.place | places, arena=arena.segments)
    plan.copies = [Copy(target, plan.argument(node, k.Mode.READ), int(node.type.nbytes))
                   for target, node in plan.copied]
    return plan


def _copied_variables(graph: TensorGraph) -> set[str]:
    """Handles whose old value is live-out as it is: by a copy after all kernels."""
    values = [n.operands[0] if n.kind is OpKind.ASSIGN else n for _, n in graph.outputs]
    return {n.attrs.handle for n in values if isinstance(n.attrs, VariableAttrs)}


def _store_live_out(plan: BufferPlan, copies: list[tuple[BufferRef, Node]], node: Node, target: BufferRef) -> None:
    if view_of(node).category in CALLED:
        node = view_of(node)
    if node in plan.place or node.kind in (OpKind.INPUT, OpKind.VARIABLE):
        copies.append((target, node))
    else:
        plan.place[node] = target


def _assign(plan: BufferPlan, copies: list[tuple[BufferRef, Node]], assign: Node, variable: int,
            copied: set[str], by_calls: set[Node]) -> None:
    """Args:
        by_calls: values that library calls write, which read their operands while they do.
    """
    value = assign.operands[0]
    outside = value in plan.place or value.kind in (OpKind.INPUT, OpKind.VARIABLE) \
        or not by_calls.isdisjoint((value, view_of(value)))
    in_place = BufferRef(Space.VARIABLE, variable)
    if plan.variables[variable] not in copied and not outside:
        if update_variable(plan, value, variable):
            plan.state.append((variable, StateMode.IN_PLACE))
            return _store_live_out(plan, copies, value, in_place)
        if value.type.nbytes <= SMALL_BYTES:
            plan.state.append((variable, StateMode.IN_PLACE))
            copies.append((in_place, value))
            return None
    plan.state.append((variable, StateMode.FRESH))
    return _store_live_out(plan, copies, value, BufferRef(Space.FRESH, len(plan.state) - 1))


def _touches(plan: BufferPlan, kernel: Work) -> list[Touch]:
    """Values that will live in the arena are told apart by node, all others by place."""
    found = []
    for node, mode in kernel.arguments:
        if node in plan.place or node.kind in (OpKind.INPUT, OpKind.VARIABLE):
            found.append(Touch(plan.argument(node, mode), mode is k.Mode.WRITE))
        else:
            nbytes = None if isinstance(node.type.nbytes, SymbolicDim) else int(node.type.nbytes)
            found.append(Touch(node, mode is k.Mode.WRITE, nbytes))
    return found


def _turns(graph: TensorGraph, kernel: Work) -> list[Touch]:
    """What makes a kernel wait for those that it has to come after."""
    written = [node for node, mode in kernel.arguments if mode is not k.Mode.READ]
    earlier = set(graph.after.values())
    return [*(Touch(("turn", node), True) for node in written if node in earlier),
            *(Touch(("turn", graph.after[node]), False) for node in written if node in graph.after)]


def memory_of(node: Node, plan: BufferPlan) -> Node:
    """The first value in the memory of one of the arena."""
    while node in plan.reused:
        node = plan.reused[node]
    return node
