"""Sizes of a graph with branches and loops: what must be equal inside may differ outside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.shapes.branch_sizes import Types, inferred_types, types_between_branches


def graph_of(make: Callable[[], None]) -> tuple[GraphDef, Callable[[str], Types]]:
    """The graph that is made, and the types that TensorFlow has of each node by itself: no size has a name."""
    with tf.Graph().as_default() as graph:
        make()
    types = {op.name: [(t.dtype.as_datatype_enum, None if t.shape.rank is None else tuple(
        -1 if d is None else d for d in t.shape.as_list())) for t in op.outputs] for op in graph.get_operations()}
    return graph.as_graph_def(), lambda name: types[name]


def arguments() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    x, w = (tf.compat.v1.placeholder(tf.float32, [None, None], name) for name in "xw")
    return x, w, tf.compat.v1.placeholder(tf.bool, [], "p")


def dims(types_of: Callable[[str], Types], name: str, index: int = 0) -> tuple[int, ...]:
    shape = types_of(name)[index][1]
    assert shape is not None
    return shape


def branch() -> None:
    x, w, p = arguments()
    x_false, x_true = tf.raw_ops.Switch(data=x, pred=p, name="x_switch")
    _, w_true = tf.raw_ops.Switch(data=w, pred=p, name="w_switch")
    tf.raw_ops.MatMul(a=x_true, b=w_true, name="matmul")
    tf.raw_ops.Merge(inputs=[tf.exp(x_false), tf.tanh(x_true)], name="merge")
    tf.raw_ops.Merge(inputs=[x_false, w_true], name="either")


def test_a_branch_that_is_not_taken_says_nothing_of_the_arguments() -> None:
    types_of = types_between_branches(*graph_of(branch))
    x, w = dims(types_of, "x"), dims(types_of, "w")
    assert len({*x, *w}) == 4
    assert all(d < -1 for d in (*x, *w))
    assert dims(types_of, "matmul") == (x[0], w[1])


def test_names_hold_in_branches_and_behind_them() -> None:
    types_of = types_between_branches(*graph_of(branch))
    x, w = dims(types_of, "x"), dims(types_of, "w")
    assert dims(types_of, "x_switch") == x
    assert dims(types_of, "x_switch", 1)[0] == x[0]
    assert dims(types_of, "merge") == x
    assert not {*dims(types_of, "either")} & {*x, *w}


def test_a_number_of_one_branch_is_not_the_argument_s() -> None:
    def make() -> None:
        x, _, p = arguments()
        _, x_true = tf.raw_ops.Switch(data=x, pred=p)
        tf.raw_ops.MatMul(a=x_true, b=tf.ones([3, 5]), name="matmul")
        known, _ = tf.raw_ops.Switch(data=tf.ones([2, 7]), pred=p)
        tf.identity(known, "known")

    types_of = types_between_branches(*graph_of(make))
    assert all(d < -1 for d in dims(types_of, "x"))
    assert dims(types_of, "matmul")[1] == 5
    assert dims(types_of, "known") == (2, 7)


@pytest.mark.parametrize("constant", [False, True])
def test_a_loop_of_no_trips_says_nothing_of_the_arguments(constant: bool) -> None:
    """x is carried, w too or read by all trips."""
    def make() -> None:
        x, w, p = arguments()
        merged, bodies = [], []
        going = tf.raw_ops.LoopCond(input=p)
        for name, value in (("x", x), ("w", w)):
            enter = tf.raw_ops.Enter(data=value, frame_name="f", is_constant=constant and name == "w")
            if constant and name == "w":
                bodies.append(enter)
                continue
            merged.append(tf.raw_ops.Merge(inputs=[enter, enter], name=f"{name}_merge")[0])
            merged[-1].set_shape([None, None])
            left, body = tf.raw_ops.Switch(data=merged[-1], pred=going)
            bodies.append(body)
            tf.raw_ops.NextIteration(data=body, name=f"{name}_next")
            tf.raw_ops.Exit(data=left, name=f"{name}_exit")
        tf.raw_ops.MatMul(a=bodies[0], b=bodies[1], name="matmul")

    graph_def, theirs = graph_of(make)
    for node in graph_def.node:
        if node.op == "Merge":
            node.input[1] = node.name.replace("merge", "next")
    types_of = types_between_branches(graph_def, theirs)
    x, w = dims(types_of, "x"), dims(types_of, "w")
    assert len({*x, *w}) == 4
    assert dims(types_of, "x_merge") == dims(types_of, "x_exit") == x
    assert dims(types_of, "matmul") == (x[0], w[1])


def test_nothing_passes_where_not_even_the_rank_is_known() -> None:
    def make() -> None:
        p = tf.compat.v1.placeholder(tf.bool, [], "p")
        for name in "xw":
            tf.compat.v1.placeholder(tf.float32, None, name)
        x_true, w_true = (tf.raw_ops.Switch(data=tf.compat.v1.get_default_graph().get_tensor_by_name(f"{name}:0"),
                                            pred=p)[1] for name in "xw")  # fmt: skip
        tf.raw_ops.MatMul(a=x_true, b=w_true)

    types_of = types_between_branches(*graph_of(make))
    assert types_of("x")[0][1] is types_of("w")[0][1] is None


def test_a_graph_without_branches_keeps_its_types() -> None:
    graph_def, theirs = graph_of(lambda: tf.exp(arguments()[0]).set_shape([None, None]))
    assert types_between_branches(graph_def, theirs) is theirs


def test_parts_of_a_partition_have_a_length_each() -> None:
    def parted() -> None:
        x = tf.compat.v1.placeholder(tf.float32, [16, 4], "x")
        numbers = tf.compat.v1.placeholder(tf.int32, [None], "numbers")
        for i, part in enumerate(tf.raw_ops.DynamicPartition(data=x, partitions=numbers, num_partitions=3,
                                                             name="parts")):
            tf.exp(part, f"exp_{i}")

    types_of = types_between_branches(*graph_of(parted))
    found = [dims(types_of, f"exp_{i}") for i in range(3)]
    assert len({length for length, _ in found}) == 3
    assert all(length < -1 and width == 4 for length, width in found)
    assert [dims(types_of, "parts", i) for i in range(3)] == found


def test_sizes_that_inference_wrongly_calls_equal_have_a_name_each() -> None:
    def blocks() -> None:
        x = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3], "x")
        pads = tf.compat.v1.placeholder(tf.int32, [2, 2], "pads")
        y = tf.raw_ops.SpaceToBatchND(input=x, block_shape=[2, 2], paddings=pads, name="blocks")
        tf.exp(y, "exp")

    types_of = types_between_branches(*graph_of(blocks))
    found = dims(types_of, "exp")
    assert len(set(found)) == 4
    assert found[3] == 3
    assert found == dims(types_of, "blocks")
    assert not set(found[:3]) & set(dims(types_of, "x"))


def meeting(width: int | None) -> Callable[[], None]:
    """A result of SpaceToBatchND is added to what has one row of columns: so much is its third size, not its second."""

    def make() -> None:
        x = tf.compat.v1.placeholder(tf.float32, [None, width, width, 3], "x")
        w = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3], "w")
        pads = tf.compat.v1.placeholder(tf.int32, [2, 2], "pads")
        y = tf.raw_ops.SpaceToBatchND(input=x, block_shape=[2, 2], paddings=pads, name="blocks")
        tf.raw_ops.AddN(inputs=[y, tf.reduce_sum(w, 2, keepdims=True)], name="both")

    return make


@pytest.mark.parametrize("width", [None, 8])
def test_a_number_that_one_of_them_meets_is_not_the_other_s(width: int | None) -> None:
    graph_def, _ = graph_of(meeting(width))
    theirs = inferred_types(graph_def)
    assert theirs["both"][0][1][1] == 1, "TensorFlow's inference is wrong no longer"
    types_of = types_between_branches(graph_def, theirs.__getitem__)
    assert dims(types_of, "both")[1:] == (dims(types_of, "w")[1], 1, 3)
    assert dims(types_of, "w")[1] < -1
    assert dims(types_of, "blocks")[1] < -1


def test_numbers_pass_through_such_an_op() -> None:
    def blocks() -> None:
        x = tf.compat.v1.placeholder(tf.float32, [None, 6, 8, 3], "x")
        y = tf.raw_ops.SpaceToBatchND(input=x, block_shape=[2, 2], paddings=[[1, 1], [0, 0]])
        z = tf.raw_ops.BatchToSpaceND(input=tf.exp(y), block_shape=[2, 2], crops=[[0, 0], [0, 0]])
        tf.tanh(z, "last")

    graph_def, _ = graph_of(blocks)
    types_of = types_between_branches(graph_def, inferred_types(graph_def).__getitem__)
    assert dims(types_of, "last")[1:] == (8, 8, 3)
    assert dims(types_of, "last")[0] < 0


def test_so_have_those_of_a_call_of_such_an_op() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None] * 4), tf.TensorSpec([2, 2], tf.int32)])
    def blocks(x: tf.Tensor, pads: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.SpaceToBatchND(input=x, block_shape=[2, 2], paddings=pads)

    def called() -> None:
        x = tf.compat.v1.placeholder(tf.float32, [None] * 4, "x")
        tf.exp(blocks(x, tf.compat.v1.placeholder(tf.int32, [2, 2], "pads")), "exp")

    types_of = types_between_branches(*graph_of(called))
    assert len(set(dims(types_of, "exp"))) == 4


def off_diagonal(number: int, length: int | None, rows: int | None = None) -> Callable[[], None]:
    """A matrix with a diagonal of this length, above or below its own; of rows that a constant says, or not."""

    def make() -> None:
        x = tf.compat.v1.placeholder(tf.float32, [3, length], "x")
        given = tf.compat.v1.placeholder(tf.int32, [], "rows") if rows is None else tf.constant(rows)
        y = tf.raw_ops.MatrixDiagV3(diagonal=x, k=number, num_rows=given, num_cols=-1, padding_value=0.0, name="matrix")
        tf.exp(y, "exp")

    return make


@pytest.mark.parametrize(("number", "length", "rows"), [(-1, None, -1), (2, None, -1), (0, 4, None)])
def test_a_number_that_inference_computes_with_what_it_does_not_know_is_unknown(
        number: int, length: int | None, rows: int | None) -> None:
    graph_def, _ = graph_of(off_diagonal(number, length, rows))
    theirs = inferred_types(graph_def)
    assert min(theirs["exp"][0][1][1:]) >= 0, "TensorFlow's inference is wrong no longer"
    types_of = types_between_branches(graph_def, theirs.__getitem__)
    found = dims(types_of, "exp")
    assert len(set(found)) == 3
    assert max(found) < 0
    assert dims(types_of, "x")[0] == 3


def test_a_number_of_what_is_known_is_believed() -> None:
    graph_def, _ = graph_of(off_diagonal(1, 4, -1))
    types_of = types_between_branches(graph_def, inferred_types(graph_def).__getitem__)
    assert dims(types_of, "exp") == (3, 5, 5)


@pytest.mark.parametrize("axis", [None, 1])
def test_parts_have_unknown_sizes_where_the_axis_is_no_constant(axis: int | None) -> None:
    def parts() -> None:
        x = tf.compat.v1.placeholder(tf.float32, [None, None], "x")
        along = tf.compat.v1.placeholder(tf.int32, [], "axis") if axis is None else tf.constant(axis)
        first, _ = tf.raw_ops.SplitV(value=x, size_splits=[1, 3], axis=along, num_split=2, name="split")
        tf.exp(first, "exp")

    graph_def, _ = graph_of(parts)
    theirs = inferred_types(graph_def)
    assert theirs["exp"][0][1][1] == 1, "TensorFlow's inference is wrong no longer"
    types_of = types_between_branches(graph_def, theirs.__getitem__)
    rows, columns = dims(types_of, "exp")
    assert (columns == 1) == (axis == 1)
    assert (rows == dims(types_of, "x")[0]) == (axis == 1)


def test_a_number_that_is_wrong_of_known_sizes_is_unknown() -> None:
    def pools() -> None:
        x = tf.compat.v1.placeholder(tf.float32, [1, 6, 6, 1], "x")
        _, rows, _ = tf.raw_ops.FractionalMaxPool(value=x, pooling_ratio=[1.0, 1.5, 1.5, 1.0], name="pool")
        tf.cast(rows, tf.float32, name="rows")

    graph_def, _ = graph_of(pools)
    theirs = inferred_types(graph_def)
    assert theirs["rows"][0][1] == (4,), "TensorFlow's inference is wrong no longer: they are 5"
    types_of = types_between_branches(graph_def, theirs.__getitem__)
    assert dims(types_of, "rows")[0] < 0


@pytest.mark.parametrize("of_the_image", [True, False])
def test_a_gradient_of_its_image_has_the_image_s_batch(of_the_image: bool) -> None:
    def gradient() -> None:
        x = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3], "x")
        other = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3], "other")
        y = tf.raw_ops.ResizeBilinear(images=x, size=[8, 8]) if of_the_image else other
        tf.exp(tf.raw_ops.ResizeBilinearGrad(grads=tf.tanh(y), original_image=x), "exp")

    graph_def, _ = graph_of(gradient)
    types_of = types_between_branches(graph_def, inferred_types(graph_def).__getitem__)
    assert (dims(types_of, "exp")[0] == dims(types_of, "x")[0]) == of_the_image
    assert dims(types_of, "exp")[3] == 3
