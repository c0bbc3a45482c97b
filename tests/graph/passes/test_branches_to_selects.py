"""Both sides of a branch are computed where they only compute and update; what a step leaves is the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import types_of_graph
from tests.graph.branches.programs import PROFILES, Program, branch_ops
from tf_stitch.device.default_profile import default_profile, facts_of
from tf_stitch.device.spec import H200
from tf_stitch.graph.origin import origin
from tf_stitch.graph.passes.branches_to_selects import BranchesToSelects
from tf_stitch.graph.passes.values_of_optionals import ValuesOfOptionals
from tf_stitch.graph.state import GraphState

X = [np.array(x, np.float32) for x in ([1, 2, 3, 4], [-1, 0, 2, -5], [np.inf, 1, 1, 1], [0, 0, 0, 0], [9, 9, 9, -9])]
COUNT, SCALE, WEIGHTS = np.int64(0), np.float32(8), np.array([1, -0.0, 3, 4], np.float32)


def do(*updates: Callable[[], Any]) -> Callable[[], None]:
    def branch() -> None:
        for update in updates:
            update()

    return branch


def loss_scaling(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    """A test of gradients around a test of a counter, as LossScaleOptimizer has them."""
    count, scale, weights = variables

    def update() -> None:
        weights.assign_sub(x / scale)
        tf.cond(count >= 1, do(lambda: count.assign(0), lambda: scale.assign(scale * 2.0)),
                do(lambda: count.assign_add(1)))

    def back_off() -> None:
        count.assign(0)
        scale.assign(scale * 0.5)

    tf.cond(tf.reduce_all(tf.math.is_finite(x)), update, back_off)
    return [tf.reduce_sum(weights.read_value())]


def accumulation(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    """Of gradients, for three steps."""
    count, total, weights = variables
    is_last = (count + 1) % 3 == 0

    def step() -> None:
        weights.assign_sub(tf.clip_by_norm((x + total) / 3.0, 1.0))
        total.assign(tf.zeros([4]))

    tf.cond(is_last, step, do(lambda: total.assign_add(x)))
    count.assign_add(1)
    return [tf.identity(is_last)]


def values(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    [weights] = variables
    positive = x[0] > 0
    chosen = tf.cond(positive, lambda: x * 2.0, lambda: x - weights)
    again = tf.cond(positive, lambda: chosen + weights, lambda: tf.cond(x[1] > 0, lambda: chosen, lambda: -chosen))
    return [chosen, again]


def one_after_the_other(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    """Two branches of one predicate: what the second reads, the first has written."""
    [weights] = variables
    positive = x[0] > 0
    tf.cond(positive, do(lambda: weights.assign(x)), do(lambda: weights.assign_add(x)))
    tf.cond(positive, do(lambda: weights.assign_sub(2.0 * weights)), do(lambda: weights.assign(weights * x)))
    return [weights.read_value()]


def by_one_op(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    weights, momentum = variables

    def update() -> tf.Tensor:
        tf.raw_ops.ResourceApplyMomentum(var=weights.handle, accum=momentum.handle, lr=0.1, grad=x, momentum=0.9)
        return tf.reduce_sum(weights.read_value())

    return [tf.cond(x[0] > 0, update, lambda: tf.constant(0.0))]


def multiplied(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    """Keras' spectral norm: a small matmul, and variables that are updated before and after."""
    [weights] = variables
    for _ in range(2):
        rows = tf.reshape(weights, [2, 2])
        chosen = tf.cond(tf.reduce_all(weights == 0.0), lambda: weights.read_value(),
                         lambda rows=rows: tf.reshape(tf.matmul(rows, rows) / tf.norm(x), [4]))
        weights.assign(chosen)
    return [chosen]


@pytest.mark.parametrize(("function", "first"), [
    (multiplied, [WEIGHTS]),
    (loss_scaling, [COUNT, SCALE, WEIGHTS]), (accumulation, [COUNT, WEIGHTS * 0, WEIGHTS]), (values, [WEIGHTS]),
    (one_after_the_other, [WEIGHTS]), (by_one_op, [WEIGHTS, WEIGHTS * 0])], ids=lambda v: getattr(v, "__name__", ""))
def test_steps_leave_the_same(function: Callable[..., Any], first: list[Any]) -> None:
    program = Program(function, first)
    assert branch_ops(program.before)
    assert not branch_ops(program.after)
    assert became(program) >= 1
    assert program.state.imported  # every node has its types
    program.check(X * 2)


def test_errors_find_the_lines_of_what_is_new() -> None:
    program = Program(loss_scaling, [COUNT, SCALE, WEIGHTS])
    before = {origin(node) for node in program.before.node}
    assert {origin(node) for node in program.after.node} <= before


def became(program: Program) -> int:
    """How many branches became selects."""
    return sum(branch.reason is None for branch in program.state.branches)


def random_program(seed: int) -> Program:
    """Branches in branches over three variables, with what they read, update and give chosen at random."""
    def body(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
        random = np.random.default_rng(seed)  # tracing reads the same numbers each time
        def value(variables: list[tf.Variable]) -> tf.Tensor:
            a, b = ([*variables, x][random.integers(len(variables) + 1)] for _ in range(2))
            return [lambda: a + b, lambda: a * 0.5 - b, lambda: tf.maximum(a, b), lambda: -a][random.integers(4)]()

        def block(depth: int) -> tf.Tensor:
            result = x
            for _ in range(random.integers(1, 4)):
                kind = random.integers(5 if depth else 3)
                if kind == 0:
                    variables[random.integers(3)].assign(value(variables))
                elif kind == 1:
                    variable = variables[random.integers(3)]
                    (variable.assign_add if random.integers(2) else variable.assign_sub)(value(variables))
                elif kind == 2:
                    result = result + value(variables)
                else:
                    predicate = tf.reduce_sum(value(variables)) > float(random.integers(-2, 3))
                    result = tf.cond(predicate, lambda: block(depth - 1), lambda: block(depth - 1))
                    if random.integers(2):  # and the same one again
                        result = result + tf.cond(predicate, lambda: block(depth - 1), lambda: block(0))
            return result

        found = tf.cond(tf.reduce_sum(x) > 1.0, lambda: block(2), lambda: block(2))
        return [found, *(v.read_value() for v in variables)]

    return Program(body, [WEIGHTS, WEIGHTS * 2, WEIGHTS - 3])


@pytest.mark.parametrize("seed", range(12))
def test_random_branches_leave_the_same(seed: int) -> None:
    program = random_program(seed)
    assert branch_ops(program.before)
    assert not branch_ops(program.after)
    random = np.random.default_rng(seed)
    program.check([random.integers(-3, 4, 4).astype(np.float32) for _ in range(6)])


def branching(*sides: Callable[..., Any], predicate: Callable[..., Any] = lambda x: x[0] > 0) -> Program:
    """A program of one branch and one variable."""
    def function(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
        return [tf.cond(predicate(x), *(functools.partial(side, x, *variables) for side in sides))]

    return Program(function, [WEIGHTS])


def other(x: tf.Tensor, *_: tf.Variable) -> tf.Tensor:
    return -x


def checked(x: tf.Tensor, *_: tf.Variable) -> tf.Tensor:
    with tf.control_dependencies([tf.debugging.Assert(x[1] > 0, [x])]):
        return x + 1.0


def other_rows(x: tf.Tensor, *_: tf.Variable) -> tf.Tensor:
    return tf.broadcast_to(-x, [1 << 22, 4])


def test_a_size_that_comes_from_outside() -> None:
    """Of rows of a gradient, which Keras' optimizer makes dense in the branch of loss scaling."""
    def function(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
        [weights] = variables
        shape = tf.constant([4, 1])
        tf.cond(tf.reduce_all(tf.math.is_finite(x)), do(lambda: weights.assign_sub(tf.math.unsorted_segment_sum(
            x, tf.argsort(x), shape[0]))), do())
        return [x + 1.0]

    program = Program(function, [WEIGHTS])
    assert any(n.op == "UnsortedSegmentSum" for n in program.before.node)
    assert branch_ops(program.before)
    assert not branch_ops(program.after)
    program.check(X)


STAY = {
    "another shape": (lambda x, *_: x[:2], lambda x, *_: x[:3]),
    "an assertion": (checked, other),
    "random numbers": (lambda x, *_: x + tf.random.uniform([4]), other),
    "rows by number": (lambda x, weights: tf.gather(weights, tf.cast(x, tf.int32)), other),
    "much for nothing": (lambda x, *_: tf.broadcast_to(x, [1 << 22, 4]), other_rows),
}


@pytest.mark.parametrize("what", STAY)
def test_what_may_not_run_for_nothing_stays_a_branch(what: str) -> None:
    program = branching(*STAY[what])
    assert branch_ops(program.after) == branch_ops(program.before) != []
    assert became(program) == 0


def test_a_variable_whose_shape_is_not_known() -> None:
    def function(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
        tf.cond(x[0] > 0, do(lambda: variables[0].assign(x[:2])), do())
        return [x + 1.0]

    program = Program(function, [WEIGHTS], any_shape=True)
    assert branch_ops(program.after) == branch_ops(program.before) != []


def test_what_is_expected_may_be_large() -> None:
    """Gradients are finite but for few steps."""
    def function(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
        [weights, other] = variables
        tf.cond(tf.reduce_all(x > 0) if expected else x[0] > 0, do(lambda: weights.assign_add(weights * x[0])),
                do(lambda: other.assign(x)))
        return [x + other]

    for expected in (True, False):
        program = Program(function, [np.ones([1 << 23, 4], np.float32), WEIGHTS])
        assert program.before
        assert bool(branch_ops(program.after)) is not expected


def test_a_branch_in_a_branch_that_stays() -> None:
    """It is chosen where it is alive."""
    program = branching(lambda x, w: checked(tf.cond(x[1] > 1, lambda: x + w, lambda: x - w)), other)
    before, after = branch_ops(program.before), branch_ops(program.after)
    assert set(after) < set(before)
    assert became(program) == 1
    program.check(X)


def behind_a_loop(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    [weights] = variables
    tf.while_loop(lambda i: i < 2, lambda i: (weights.assign(weights * x), i + 1)[1:], (0,))
    return [tf.cond(x[0] > 0, lambda: weights + x, lambda: x * 2.0)]


def behind_a_branch_that_stays(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    [weights] = variables
    inverse = tf.linalg.inv  # no kernel of ours
    apart = tf.eye(2) * 9.0 + tf.tanh(tf.reshape(x, [2, 2]))
    tf.cond(x[1] > 1, do(lambda: weights.assign(tf.reshape(inverse(apart), [4]))), do(lambda: weights.assign_add(x)))
    return [tf.cond(x[0] > 0, lambda: weights + x, lambda: x * 2.0)]


def through_a_read(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    """What a side assigns is all that waits for what came before the branch, and has less to wait for by itself."""
    count, weights = variables
    count.assign_add(x)
    weights.assign_sub(x)
    weights.assign(x)
    return [tf.cond(x[0] > 0, lambda: x + 0.0, lambda: weights.assign(count.read_value()))]


def test_an_update_waits_for_those_that_what_it_needs_waited_for() -> None:
    program = Program(through_a_read, [WEIGHTS, WEIGHTS])
    assert became(program) == 1
    program.check(X)


def ahead_of_a_loop(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    """What updates in the loop does not wait for what is outside but by way of what enters."""
    [weights] = variables
    chosen = tf.cond(x[0] > 0, lambda: weights + x, lambda: weights.assign_add(x))
    tf.while_loop(lambda i: i < 2, lambda i: (weights.assign(weights * chosen), i + 1)[1:], (0,))
    return [chosen]


@pytest.mark.parametrize("function", [behind_a_loop, behind_a_branch_that_stays, ahead_of_a_loop])
def test_who_reads_waits_for_no_part_of_what_stays(function: Callable[..., Any]) -> None:
    """An update in a loop, or on a side that may not run: the read would be in the loop, or would not run."""
    program = Program(function, [WEIGHTS])
    assert became(program) == 1
    program.check(X)


def reads_in_a_branch(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    count, weights = variables
    inverse = tf.linalg.inv(tf.eye(2) * 9.0)  # no kernel of ours
    read = tf.cond(x[1] > 1, lambda: tf.reshape(tf.linalg.inv(inverse), [4]), lambda: weights.read_value() * 2.0)
    return [read, tf.cond(x[0] > 0, lambda: x + 0.0, lambda: weights.assign(count.read_value()))]


def reads_in_a_loop(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    count, weights = variables
    _, read = tf.while_loop(lambda i, _: i < 2, lambda i, had: (i + 1, had + weights.read_value()), (0, x))
    return [read, tf.cond(x[0] > 0, lambda: x + 0.0, lambda: weights.assign(count.read_value()))]


@pytest.mark.parametrize("function", [reads_in_a_branch, reads_in_a_loop])
def test_an_update_waits_for_what_stays_and_reads_before_it(function: Callable[..., Any]) -> None:
    """By way of what is first behind it: what is in it may not run."""
    program = Program(function, [WEIGHTS, WEIGHTS])
    assert became(program) == 1
    program.check(X)


def test_a_value_that_is_fetched_is_one() -> None:
    """Of a session: nothing reads it."""
    program = Program(values, [WEIGHTS])
    chosen = next(n.name for n in program.before.node if n.op == "Merge" and n.attr["T"].type == tf.float32)
    graph_def = tf.compat.v1.graph_util.extract_sub_graph(program.before, [chosen])
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        state = GraphState(graph_def, types_of_graph(graph), frozenset({chosen}), device_type="GPU")
        after = BranchesToSelects(PROFILES).run(state).graph.graph_def
    assert {n.op for n in after.node if n.name == chosen} == {"SelectV2"}


def test_on_a_cpu_nobody_asks() -> None:
    program = Program(values, [WEIGHTS])
    done = BranchesToSelects(PROFILES).run(GraphState(program.before, lambda name: [], frozenset()))
    assert not done.modified
    assert done.graph.graph_def is program.before
    assert {branch.reason for branch in done.graph.branches} == {"on a CPU a branch costs little"}


def several_results(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    [weights] = variables

    def parts() -> tf.Tensor:
        first, second = tf.split(x, 2)
        return tf.add_n([tf.concat([second, first * 2.0], 0), x, weights])

    return [tf.cond(x[0] > 0, parts, lambda: x * 3.0)]


def test_nodes_that_need_no_change_are_kept() -> None:
    """With their attributes, their places in the graph, and what errors find their lines by."""
    program = Program(several_results, [WEIGHTS])
    for node in program.before.node:
        node.attr["_mine"].s = node.name.encode()
    before, after = ({node.name: node for node in graph.node} for graph in (program.before, program.after))
    inside = [name for name, node in before.items() if node.op in ("Split", "AddN", "ConcatV2", "Mul")]
    assert len(inside) >= 4
    changed = ("Switch", "Merge")
    for name in inside:
        was, now = before[name], after[name]
        assert (was.op, was.device, was.attr, was.experimental_debug_info) == (
            now.op, now.device, now.attr, now.experimental_debug_info)
        for mine, its in zip(was.input, now.input, strict=True):
            of_switch = before[mine.lstrip("^").partition(":")[0]].op in changed
            assert mine == its or (of_switch and its.partition(":")[0] == mine.partition(":")[0])
    moved = (*changed, "ReadVariableOp")  # these wait for updates alone
    kept = [name for name in after if name in before and before[name].op not in moved]
    assert [name for name in before if name in set(kept)] == kept, "in the order that they had"
    program.check(X)


def test_values_of_sides_go_where_they_went() -> None:
    program = Program(several_results, [WEIGHTS])
    assert became(program) == 1
    assert program.state.imported
    assert len(program.state.types_of(next(n.name for n in program.after.node if n.op == "Split"))) == 2
    program.check(X)


def test_who_asks_whether_a_variable_is_there_does_not_read_it_otherwise() -> None:
    program = branching(lambda x, w: x + w, other, predicate=lambda x: tf.raw_ops.VarIsInitializedOp(
        resource=tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[4], shared_name="nowhere")))
    assert branch_ops(program.after)


def test_what_a_branch_may_do_for_nothing_follows_the_device() -> None:
    """One whose memory moves 8 bytes in the time in which an H200's moves 64 MiB."""
    facts = facts_of(H200.profile.made)
    slow = default_profile("slow", replace(facts, memory_gbps=facts.memory_gbps / (1 << 23)), H200.profile)
    state = ValuesOfOptionals().run(Program(values, [WEIGHTS]).given).graph
    for profile, stays in ((H200.profile, False), (slow, True)):
        done = BranchesToSelects({"GPU": profile}).run(state).graph
        assert any("for nothing" in str(branch.reason) for branch in done.branches) is stays
