"""What the validation of a rewritten graph lets through, and what not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.support.loop_graph import loop
from tf_stitch.errors import VerifyError
from tf_stitch.graph.finish.validation import validate_graph


def graph(*nodes: tuple[str, str, list[str]], device: str = "/device:CPU:0") -> GraphDef:
    result = GraphDef()
    for name, op, inputs in nodes:
        result.node.add(name=name, op=op, input=inputs, device=device)
    return result


CHAIN = (("x", "_Arg", []), ("a", "Tanh", ["x"]), ("b", "Exp", ["a:0", "^x"]), ("y", "_Retval", ["b"]))
LOOP = (
    ("x", "_Arg", []),
    ("enter", "Enter", ["x"]),
    ("merge", "Merge", ["enter", "next"]),
    ("next", "NextIteration", ["merge"]),
    ("y", "_Retval", ["merge"]),
)


@pytest.mark.parametrize("nodes", [CHAIN, LOOP])
def test_accepts(nodes: tuple[tuple[str, str, list[str]], ...]) -> None:
    validate_graph(graph(*nodes), graph(*nodes), frozenset(["y"]))


def test_accepts_a_region() -> None:
    after = graph(("x", "_Arg", []), ("b", "StitchOp", ["x"]), ("y", "_Retval", ["b:0"]))
    after.node[1].attr["Tin"].list.type.append(1)
    after.node[1].attr["Tout"].list.type.append(1)
    validate_graph(graph(*CHAIN), after, frozenset())
    after.node[2].input[0] = "b:1"
    with pytest.raises(VerifyError, match="beyond the outputs"):
        validate_graph(graph(*CHAIN), after, frozenset())
    after.node[2].input[0] = "b"
    after.node[1].input.append("x")
    with pytest.raises(VerifyError, match="2 data inputs"):
        validate_graph(graph(*CHAIN), after, frozenset())


def test_a_python_function_runs_on_the_cpu_of_its_task() -> None:
    gpu, cpu = (f"/job:worker/replica:0/task:1/device:{kind}:0" for kind in ("GPU", "CPU"))
    before, after = graph(*CHAIN, device=gpu), graph(*CHAIN, device=gpu)
    after.node.add(name="call", op="PyFunc", input=["x"], device=cpu)
    validate_graph(before, after, frozenset())
    after.node[-1].device = cpu.replace("task:1", "task:0")
    with pytest.raises(VerifyError, match="did not use"):
        validate_graph(before, after, frozenset())


def test_our_ops_run_in_this_process() -> None:
    after = graph(("x", "_Arg", []), ("b", "StitchOp", ["x"]), ("y", "_Retval", ["b:0"]))
    after.node[1].attr["Tin"].list.type.append(1)
    after.node[1].attr["Tout"].list.type.append(1)
    with pytest.raises(VerifyError, match="another process"):
        validate_graph(graph(*CHAIN), after, frozenset(), lambda device: False)


def _dangle(after: GraphDef) -> None:
    after.node[3].input[0] = "gone:0"


def _cycle(after: GraphDef) -> None:
    after.node[1].input.append("^b")


def _drop_result(after: GraphDef) -> None:
    del after.node[3]


def _drop_preserved(after: GraphDef) -> None:
    after.node[2].input[0] = "x"
    del after.node[1]


def _rename_twice(after: GraphDef) -> None:
    after.node[2].name = "a"


def _move(after: GraphDef) -> None:
    after.node[1].device = "/device:GPU:0"


def _no_device(after: GraphDef) -> None:
    after.node.add(name="new", op="NoOp")


def _control_first(after: GraphDef) -> None:
    del after.node[2].input[:]
    after.node[2].input.extend(["^x", "a"])


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (_dangle, "does not exist"),
        (_cycle, "cycle"),
        (_drop_result, "boundary"),
        (_drop_preserved, "must stay"),
        (_rename_twice, "same name"),
        (_move, "moved"),
        (_no_device, "did not use"),
        (_control_first, "after a control input"),
    ],
)
def test_rejects(break_it: Callable[[GraphDef], None], message: str) -> None:
    after = graph(*CHAIN)
    break_it(after)
    with pytest.raises(VerifyError, match=message):
        validate_graph(graph(*CHAIN), after, frozenset(["a"]))


def test_a_region_before_and_after_a_loop_is_refused() -> None:
    before, after = loop(), GraphDef()
    for node in before.node:
        if node.name not in ("before", "after"):
            after.node.add().CopyFrom(node)
    region = after.node.add(name="region", op="StitchOp", input=["start", "exit"])
    region.attr["Tin"].list.type.extend([1, 1])
    region.attr["Tout"].list.type.extend([1, 1])
    next(n for n in after.node if n.name == "enter_limit").input[:] = ["region"]
    with pytest.raises(VerifyError, match="cycle"):
        validate_graph(before, after, frozenset())
