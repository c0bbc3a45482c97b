"""Which branches of a graph give way, and why others stay."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.graph.branches.old_branches import OldProgram, v1
from tests.graph.branches.programs import Program

W = np.array([1, -0.0, 3, 4], np.float32)
X = [np.array(x, np.float32) for x in ([1, 2, 3, 4], [-1, 0, 2, -5], [2, 9, 9, -9], [0, 0, 0, 0], [2, -1, 1, 1])]


def other(x: tf.Tensor, *_: tf.Variable) -> tf.Tensor:
    return -x


def checked(x: tf.Tensor, *_: tf.Variable) -> tf.Tensor:
    with tf.control_dependencies([tf.debugging.Assert(x[1] > -100, [x])]):
        return x + 1.0


def only_four(x: tf.Tensor, weights: tf.Variable, some: tf.Tensor) -> tf.Tensor:
    return some + weights


def large(x: tf.Tensor, *_: tf.Variable) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(tf.broadcast_to(x, [1 << 23, 4])), 0)


def multiplied(x: tf.Tensor, *_: tf.Variable) -> tf.Tensor:
    """Twice 2^30."""
    y = x[0] * tf.ones([1 << 10, 1 << 10])
    return tf.matmul(tf.matmul(y, y), y)[0, :4]


def looped(x: tf.Tensor, *_: tf.Variable) -> tf.Tensor:
    return tf.while_loop(lambda i, _: i < tf.cast(x[1], tf.int32), lambda i, y: [i + 1, y * 2.0], [0, x])[1]


STAY: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "another shape": (lambda x, *_: x[:2], lambda x, *_: x[:3], "merges values of different types"),
    "an assertion": (checked, other, "Assert checks values at run time"),
    "random numbers": (lambda x, *_: x + tf.random.uniform([4]), other, "RandomUniform"),
    "large matmuls": (multiplied, other, "2,147,483,648 multiplications of matmuls would be for nothing"),
    "a convolution": (lambda x, *_: tf.nn.conv2d(x[None, :, None, None] * tf.ones([1, 1, 4, 4]), tf.ones([3, 3, 4, 4]),
                                                 1, "SAME")[0, :, 0, 0], other, "is a library call"),
    "rows by number": (lambda x, weights, _: tf.gather(weights, tf.cast(x, tf.int32)), other, "ResourceGather"),
    "much to choose from": (lambda x, *_: tf.broadcast_to(x, [3 << 20, 4]), lambda x, *_: tf.zeros([3 << 20, 4]) + x[0],
                            "MiB"),
    "much in between": (large, other, "would make 128 MiB for nothing"),
    "sizes that hold on one side": (only_four, other, "only a run tells them"),
    "a loop": (looped, other, "is in a loop"),
}  # fmt: skip


@pytest.mark.parametrize("what", STAY)
def test_the_reason_is_told(what: str) -> None:
    true, false, why = STAY[what]

    def function(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
        some = tf.boolean_mask(x, x > 0)
        return [tf.cond(tf.shape(some)[0] > 3, *(functools.partial(side, x, *variables, some)
                                                 for side in (true, false)))]

    program = Program(function, [W])
    [entry] = [branch for branch in program.state.branches if branch.name == "cond"]
    assert why in str(entry.reason), entry


def test_what_a_branch_that_gives_way_costs() -> None:
    def function(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
        return [tf.cond(x[0] > 0, lambda: x + variables[0], lambda: -x)]

    [entry] = Program(function, [W]).state.branches
    assert (entry.name, entry.reason, entry.bytes) == ("cond", None, 32), "two values of 16 bytes"
    assert entry.nodes >= 4


@pytest.mark.parametrize("sides", [2, 3])
def test_a_choice_by_number_is_none_by_a_truth_value(sides: int) -> None:
    def function(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
        given = [lambda: x * 2.0, lambda: x - variables[0], lambda: x * variables[0]]
        return [tf.switch_case(tf.cast(x[0], tf.int32), given[:sides])]

    program = Program(function, [W])
    [entry] = program.state.branches
    assert "is a _SwitchN" in str(entry.reason)
    program.check(X)


def momentum(variable: Any, other: Any, grad: tf.Tensor) -> tf.Operation:
    return tf.raw_ops.ResourceApplyMomentum(var=variable.handle, accum=other.handle, lr=tf.reduce_sum(grad), grad=grad,
                                            momentum=tf.reduce_max(grad))


def nothing() -> tf.Operation:
    return tf.no_op()


def in_no_order(variables: list[Any], x: tf.Tensor) -> Any:
    """Both happen, or one does: neither waits for the other."""
    chosen = v1.cond(x[0] > 0, lambda: variables[0].assign_add(x, read_value=False), nothing)
    return [x + 1.0], [variables[0].assign_add(x, read_value=False), chosen.op]


def beside_a_reader(variables: list[Any], x: tf.Tensor) -> Any:
    chosen = v1.cond(x[0] > 0, lambda: momentum(variables[0], variables[1], x), nothing)
    return [variables[0].read_value() + variables[1].read_value()], [chosen.op]


def first_value(variables: list[Any], x: tf.Tensor) -> Any:
    return [x + 1.0], [v1.cond(x[0] > 0, lambda: variables[0].assign(x, read_value=False), nothing).op]


def which_side(variables: list[Any], x: tf.Tensor) -> Any:
    chosen = v1.cond(x[0] > 0, lambda: x * 2.0, lambda: x + variables[0])
    return [chosen * 2.0, tf.identity(chosen.op.outputs[1])], []


def fetched_inside(variables: list[Any], x: tf.Tensor) -> Any:
    kept = []

    def side() -> tf.Tensor:
        kept.append(x * 2.0 + variables[0])
        return kept[0] * 2.0

    return [v1.cond(x[0] > 0, side, lambda: -x), *kept], []


def merged_otherwise(variables: list[Any], x: tf.Tensor) -> Any:
    """A value of two branches' sides meets one of a single branch's side; of the first there may be none."""
    one, two = x[0] > 0, x[1] > -100
    inner = tf.raw_ops.Switch(data=tf.raw_ops.Switch(data=x, pred=one)[1] * 2.0, pred=two)[1]
    return [tf.raw_ops.Merge(inputs=[inner + 1.0, tf.raw_ops.Switch(data=x, pred=one)[0] - 1.0])[0] * 2.0], []


@pytest.mark.parametrize(("build", "why"), [
    (in_no_order, "in no order with"), (beside_a_reader, "in no order with"),
    (first_value, "may be the first to give its variable a value"), (which_side, "is asked which side was taken"),
    (fetched_inside, "may be fetched"), (merged_otherwise, "not the Merge of two sides of one branch")])
def test_graphs_of_sessions_that_stay(build: Callable[..., Any], why: str) -> None:
    program = OldProgram(build, [W, W * 2])
    assert any(why in reason for reason in program.stay), program.state.branches
    program.check(X[1:2] if build is beside_a_reader else X[:1])


def test_a_predicate_on_two_sides_of_a_branch_that_stays() -> None:
    """What updates on one of them does not wait for the other's."""
    def build(variables: list[Any], x: tf.Tensor) -> Any:
        inner, count = x[1] > 0, variables[0]

        outer = x[0] > 0
        true, false = (tf.raw_ops.Switch(data=x, pred=outer)[i] for i in (1, 0))
        checked = tf.debugging.Assert(tf.reduce_all(true > -100), [true])
        with tf.control_dependencies([checked]):
            true = tf.identity(true)

        def updated(data: tf.Tensor, taken: int) -> tf.Tensor:
            chosen = tf.raw_ops.Switch(data=data, pred=inner)
            with tf.control_dependencies([count.assign_add(chosen[taken], read_value=False)]):
                done = tf.identity(chosen[taken])
            return tf.raw_ops.Merge(inputs=[done, chosen[1 - taken]])[0]

        merged = tf.raw_ops.Merge(inputs=[updated(true, 1), updated(false, 0)])[0]
        with tf.control_dependencies([merged]):
            return [tf.identity(merged), count.read_value()], []

    program = OldProgram(build, [W])
    assert program.stay
    program.check(X)


def test_what_reads_before_its_predicate_reads_before() -> None:
    """A graph's optimizer takes away a control input where data leads the same way, through the predicate."""
    def build(variables: list[Any], x: tf.Tensor) -> Any:
        weights = variables[0]
        with tf.control_dependencies([weights.assign_add(x, read_value=False)]):
            positive = weights.read_value()[0] > 0
        pair, data = (tf.raw_ops.Switch(data=d, pred=positive) for d in (weights.handle, x))
        update = tf.raw_ops.AssignAddVariableOp(resource=pair[1], value=data[1])
        with tf.control_dependencies([update]):
            done = tf.raw_ops.Merge(inputs=[tf.identity(data[1]), data[0]])[0]
        with tf.control_dependencies([done]):
            return [done * 1.0, weights.read_value()], []

    program = OldProgram(build, [W, W])
    assert not program.stay
    had = next(node for node in program.after.node if "tfs_had" in node.name)
    assert "^AssignAddVariableOp" in had.input, had
    program.check(X)


def test_an_update_of_several_variables_waits_for_its_predicate() -> None:
    """That may read one of them."""
    def build(variables: list[Any], x: tf.Tensor) -> Any:
        weights, total = variables
        positive = tf.identity(weights.read_value()[0] > 0, name="positive")
        pair, other, data = (tf.raw_ops.Switch(data=d, pred=positive) for d in (weights.handle, total.handle, x))
        update = tf.raw_ops.ResourceApplyMomentum(var=pair[1], accum=other[1], lr=data[1][0], grad=data[1],
                                                  momentum=data[1][1])
        with tf.control_dependencies([update]):
            done = tf.raw_ops.Merge(inputs=[tf.identity(data[1]), data[0]])[0]
        with tf.control_dependencies([done]):
            return [done * 1.0, weights.read_value() + total.read_value()], []

    program = OldProgram(build, [W, W])
    assert not program.stay
    [update] = [node for node in program.after.node if node.op == "ResourceApplyMomentum"]
    truth = next(node for node in program.after.node if node.op == "Greater")
    assert f"^{truth.name}" in update.input
    program.check(X)


def old_program(seed: int) -> OldProgram:
    """Branches in branches as sessions have them, over three variables, chosen at random; what follows waits."""
    def build(variables: list[Any], x: tf.Tensor) -> Any:
        random = np.random.default_rng(seed)

        def value() -> tf.Tensor:
            a, b = ([*variables, None][random.integers(4)] for _ in range(2))
            a, b = (x if v is None else v.read_value() for v in (a, b))
            makers: Sequence[Callable[[], tf.Tensor]] = [
                lambda: a + b, lambda: a * 0.5 - b, lambda: tf.maximum(a, b), lambda: -a, lambda: tf.add_n([a, b, x]),
                lambda: tf.concat(tf.split(a, 2)[::-1], 0)]
            return makers[random.integers(len(makers))]()

        def chosen(depth: int, predicate: tf.Tensor, depths: tuple[int, int]) -> tf.Tensor:
            with tf.control_dependencies([predicate]):
                return v1.cond(predicate, lambda: block(depths[0]), lambda: block(depths[1]))

        def block(depth: int) -> tf.Tensor:
            result, last = x, []
            for _ in range(random.integers(1, 4)):
                with tf.control_dependencies(last):
                    kind = random.integers(6 if depth else 4)
                    variable = variables[random.integers(3)]
                    if kind == 0:
                        last = [variable.assign(value(), read_value=False)]
                    elif kind == 1:
                        update = variable.assign_add if random.integers(2) else variable.assign_sub
                        last = [update(value(), read_value=False)]
                    elif kind == 2:
                        last = [momentum(variables[0], variables[1], value())]
                    elif kind == 3:
                        result = result + value()
                        last = [result]
                    else:
                        predicate = tf.identity(tf.reduce_sum(value()) > float(random.integers(-2, 3)))
                        result = chosen(depth, predicate, (depth - 1, depth - 1))
                        if random.integers(2):
                            with tf.control_dependencies([result]):
                                again = tf.identity(predicate)
                            result = result + chosen(depth, again, (depth - 1, 0))
                        last = [result]
            with tf.control_dependencies(last):
                return tf.identity(result)

        found = chosen(2, tf.identity(tf.reduce_sum(x) > 1.0), (2, 2))
        with tf.control_dependencies([found]):
            return [found, *(v.read_value() for v in variables)], []

    return OldProgram(build, [W, W * 2, W - 3])


@pytest.mark.parametrize("seed", range(12))
def test_random_branches_of_sessions_leave_the_same(seed: int) -> None:
    program = old_program(seed)
    assert not program.stay
    assert not any(node.op in ("Switch", "Merge") for node in program.after.node)
    random = np.random.default_rng(seed)
    program.check([random.integers(-3, 4, 4).astype(np.float32) for _ in range(5)])
