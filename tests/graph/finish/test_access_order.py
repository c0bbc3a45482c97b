"""Graphs that keep TensorFlow's order of a variable's reads and updates, and graphs that lose it."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping

import pytest
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.graph.graphs import graph_of
from tf_stitch.errors import VerifyError
from tf_stitch.graph.finish.access_order import check_access_order

HANDLES = frozenset({"v", "w", "inner", "inner_w", "merge_v", "switch_v", "back_v", "exit_v"})
"""Names of nodes that hand out variables."""


def graph(text: str, held: int = 1) -> GraphDef:
    """Regions have these many variables, after no inputs."""
    made = graph_of(text)
    for node in made.node:
        if node.op == "StitchStateOp":
            node.attr["N"].i = held
        elif node.name in HANDLES and node.op != "VarHandleOp":
            node.attr["T"].type = types_pb2.DT_RESOURCE
    return made


def check(before: str, after: str, members: Mapping[str, str] | None = None) -> None:
    check_access_order(graph(before), graph(after), members or {})


STORES = """
    v = VarHandleOp()
    old = ReadVariableOp(v)
    slow = MatrixInverse(old)
    dead = AssignVariableOp(v, old)
    now = ReadVariableOp(v, ^dead)
    new = Tanh(now)
    last = AssignVariableOp(v, new)
"""
MEMBERS = dict.fromkeys(("dead", "now", "new", "last"), "region")


def test_a_graph_that_stays() -> None:
    check(STORES, STORES)


@pytest.mark.parametrize(("controls", "ordered"), [("", False), (", ^old", True), (", ^slow", True)])
def test_a_read_outside_of_a_region_that_writes(controls: str, ordered: bool) -> None:
    after = f"""
        v = VarHandleOp()
        old = ReadVariableOp(v)
        slow = MatrixInverse(old)
        region = StitchStateOp(v{controls})
    """
    if ordered:
        check(STORES, after, MEMBERS)
    else:
        with pytest.raises(VerifyError, match=r"(?s)need not come after old \(ReadVariableOp\)"):
            check(STORES, after, MEMBERS)


def test_an_update_that_is_gone() -> None:
    with pytest.raises(VerifyError, match="lost an update"):
        check(STORES, STORES.replace("last = AssignVariableOp(v, new)", ""))


def test_a_region_without_the_variable_that_its_member_updates() -> None:
    after = """
        v = VarHandleOp()
        old = ReadVariableOp(v)
        region = StitchOp(old)
    """
    with pytest.raises(VerifyError, match="lost an update"):
        check(STORES, after, MEMBERS)


def test_a_read_that_is_gone() -> None:
    check(STORES, """
        v = VarHandleOp()
        region = StitchStateOp(v)
    """, {**MEMBERS, "old": "region", "slow": "region"})


def test_reads_have_no_order() -> None:
    check("v = VarHandleOp()\na = ReadVariableOp(v)\nb = ReadVariableOp(v, ^a)",
          "v = VarHandleOp()\na = ReadVariableOp(v)\nb = ReadVariableOp(v)")


def test_variables_have_no_order_among_each_other() -> None:
    before = """
        v = VarHandleOp()
        w = VarHandleOp()
        x = Const()
        a = AssignVariableOp(v, x)
        b = AssignVariableOp(w, x, ^a)
    """
    check(before, before.replace(", ^a", ""))


@pytest.mark.parametrize("shared", ["", "a variable"])
def test_two_handles_of_one_variable(shared: str) -> None:
    before = graph("v = VarHandleOp()\nw = VarHandleOp()\na = ReadVariableOp(v)\nb = AssignVariableOp(w, a)")
    after = graph("v = VarHandleOp()\nw = VarHandleOp()\nx = Const()\na = ReadVariableOp(v)\n"
                  "b = AssignVariableOp(w, x)")
    for one in (before, after):
        for node in one.node[:2]:
            node.attr["shared_name"].s = shared.encode()
    if shared:
        with pytest.raises(VerifyError, match="need not come after a"):
            check_access_order(before, after, {})
    else:
        check_access_order(before, after, {})


LOOP = """
    v = VarHandleOp()
    inner = Enter(v)
    start = Const()
    enter = Enter(start)
    merge = Merge(enter, next)
    condition = LoopCond(merge)
    switch = Switch(merge, condition)
    step = Identity(switch:1)
    read = ReadVariableOp(inner, ^step)
    update = AssignVariableOp(inner, read)
    next = NextIteration(step, ^update)
    exit = Exit(switch)
    after = ReadVariableOp(v, ^exit)
"""


@pytest.mark.parametrize(("change", "message"), [
    (("NextIteration(step, ^update)", "NextIteration(step)"), "need not come after"),
    (("AssignVariableOp(inner, read)", "AssignVariableOp(inner, step)"), "update.*need not come after read|after read"),
    (("ReadVariableOp(v, ^exit)", "ReadVariableOp(v)"), "need not come after update"),
])
def test_a_loop(change: tuple[str, str], message: str) -> None:
    """Within an iteration, from one to the next, and behind the last."""
    check(LOOP, LOOP)
    with pytest.raises(VerifyError, match=message):
        check(LOOP, LOOP.replace(*change))


def test_a_loop_that_is_none_any_more() -> None:
    """Its state is read before and assigned behind, by nodes that are named after the assignment."""
    after = """
        v = VarHandleOp()
        update/state/read = ReadVariableOp(v)
        loop = StitchWhile(update/state/read)
        update/state/assign = AssignVariableOp(v, loop)
        after = ReadVariableOp(v, ^update/state/assign)
    """
    check(LOOP, after)
    with pytest.raises(VerifyError, match="need not come after update"):
        check(LOOP, after.replace("^update/state/assign", "^update/state/read"))


def test_copies_of_a_read() -> None:
    """Each step's has to come before what comes after the loop."""
    before = LOOP.replace("update = AssignVariableOp(inner, read)\n", "update = Tanh(read)\n").replace(
        "after = ReadVariableOp(v, ^exit)", "after = AssignVariableOp(v, exit)")
    after = """
        v = VarHandleOp()
        read/step_0 = ReadVariableOp(v)
        read/step_1 = ReadVariableOp(v)
        after = AssignVariableOp(v, read/step_0, ^read/step_1)
    """
    check(before, after)
    with pytest.raises(VerifyError, match="need not come after read"):
        check(before, after.replace(", ^read/step_1", ""))


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(seed: int) -> None:
    """Of a graph's edges one is taken out: the check says what a search for each pair of accesses says."""
    rng = random.Random(seed)
    for _ in range(10):
        before = _random_graph(rng)
        after = GraphDef()
        after.CopyFrom(before)
        node = rng.choice([n for n in after.node if len(n.input) > 1])
        del node.input[rng.randrange(1, len(node.input))]
        if _ordered(before) <= _ordered(after):
            check_access_order(before, after, {})
        else:
            with pytest.raises(VerifyError, match="need not come after"):
                check_access_order(before, after, {})


def _random_graph(rng: random.Random) -> GraphDef:
    lines = ["v0 = VarHandleOp()", "v1 = VarHandleOp()", "c = Const()"]
    names = ["c"]
    for i in range(rng.randrange(4, 14)):
        op = rng.choice(["ReadVariableOp", "AssignVariableOp", "NoOp", "NoOp"])
        first = [f"v{rng.randrange(2)}"] * (op != "NoOp") + ["c"] * (op == "AssignVariableOp")
        controls = [f"^{name}" for name in rng.sample(names, min(len(names), rng.randrange(1, 3)))]
        lines.append(f"n{i} = {op}({', '.join([*first, *controls])})")
        names.append(f"n{i}")
    return graph_of("\n".join(lines))


def _ordered(graph_def: GraphDef) -> set[tuple[str, str]]:
    """Pairs of accesses of a variable, in order, one of them an update."""
    nodes = {node.name: node for node in graph_def.node}

    def before(name: str) -> set[str]:
        producers = {t.removeprefix("^") for t in nodes[name].input}
        return producers.union(*map(before, producers))

    uses = {name: node.input[0] for name, node in nodes.items() if node.op.endswith("VariableOp")}
    return {(a, b) for b in uses for a in before(b) & uses.keys() if uses[a] == uses[b]
            and "AssignVariableOp" in (nodes[a].op, nodes[b].op)}


def test_many_variables_are_checked_in_linear_time() -> None:
    """A region updates each variable by a node of its own, as optimizers do."""
    def calls(variables: int) -> int:
        before, after = [], []
        for i in range(variables):
            before += [f"v{i} = VarHandleOp()", f"step/{i}/old = ReadVariableOp(v{i})",
                       f"step/{i}/new = Tanh(step/{i}/old)", f"step/{i}/update = AssignVariableOp(v{i}, step/{i}/new)"]
            after.append(f"v{i} = VarHandleOp()")
        after.append(f"region = StitchStateOp({', '.join(f'v{i}' for i in range(variables))})")
        members = {f"step/{i}/{name}": "region" for i in range(variables) for name in ("old", "new", "update")}
        given, rewritten, count = graph("\n".join(before)), graph("\n".join(after), variables), 0

        def profile(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            check_access_order(given, rewritten, members)
        finally:
            sys.setprofile(None)
        return count

    few, many = calls(50), calls(200)
    assert many < 4.5 * few
