"""Shapes of loop variables and of lists' elements, where TensorFlow's inference has none."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.frontend.check import types_of_graph
from tf_stitch.frontend.tensorflow.importer import ImportedGraph, import_graph
from tf_stitch.ir.types import Symbol

FLOAT, INT32, BOOL, VARIANT = 1, 3, 10, 21


class Graph:
    """A GraphDef in the making. Outputs have the type that is given, by default float and of unknown rank."""

    def __init__(self) -> None:
        self._def = tf.compat.v1.GraphDef()
        self._types: dict[str, list[tuple[int, tuple[int, ...] | None]]] = {}

    def add(self, op: str, name: str, inputs: list[str], *types: tuple[int, tuple[int, ...] | None], **attrs: Any
            ) -> str:  # fmt: skip
        node = self._def.node.add(name=name, op=op, input=inputs)
        for key, value in attrs.items():
            node.attr[key].CopyFrom(value)
        self._types[name] = list(types) or [(FLOAT, None)]
        return name

    def argument(self, name: str, *dims: int) -> str:
        return self.add("Placeholder", name, [], (FLOAT, dims), dtype=tf.compat.v1.AttrValue(type=FLOAT))

    def op(self, op: str, name: str, *inputs: str, dtype: int = FLOAT) -> str:
        return self.add(op, name, list(inputs), (dtype, None), T=tf.compat.v1.AttrValue(type=FLOAT))

    def loop(self, name: str, start: str, dtype: int = FLOAT) -> str:
        """Enters a loop with one variable; its value in the body."""
        frame = tf.compat.v1.AttrValue(s=b"frame_" + name.split("/")[0].encode())
        self.add("Enter", f"{name}/enter", [start], (dtype, None), frame_name=frame)
        self.add("Merge", f"{name}/merge", [f"{name}/enter", f"{name}/next"], (dtype, None), (3, ()))
        self.add("Placeholder", f"{name}/go", [], (BOOL, ()))
        self.add("Switch", f"{name}/switch", [f"{name}/merge", f"{name}/go"], (dtype, None), (dtype, None))
        return f"{name}/switch:1"

    def end(self, name: str, value: str, dtype: int = FLOAT) -> str:
        """The variable's value after the loop; `value` goes back to its beginning."""
        self.add("NextIteration", f"{name}/next", [value], (dtype, None))
        return self.add("Exit", f"{name}/exit", [f"{name}/switch"], (dtype, None))

    def push(self, name: str, handle: str, value: str) -> str:
        return self.add("TensorListPushBack", name, [handle, value], (VARIANT, ()))

    def pop(self, name: str, handle: str) -> str:
        self.add("TensorListPopBack", name, [handle], (VARIANT, ()), (FLOAT, None))
        return f"{name}:1"

    def imported(self) -> ImportedGraph:
        return import_graph(self._def, self._types.__getitem__)


def vector(number: int) -> Any:
    return tf.compat.v1.AttrValue(tensor=tf.make_tensor_proto([number], tf.int32))


def shape(graph: ImportedGraph, tensor: str) -> tuple[Any, ...] | None:
    value = graph.value(tensor)
    return None if value is None else value.type.shape


def test_a_loop_variable_keeps_its_shape() -> None:
    graph = Graph()
    body = graph.loop("loop", graph.argument("x", -2, 3))
    after = graph.end("loop", graph.op("Tanh", "tanh", body))
    graph.op("Neg", "neg", after)
    imported = graph.imported()
    assert imported.nodes["tanh"].reason is None
    assert shape(imported, "tanh:0") == shape(imported, "neg:0") == (Symbol("s2"), 3)


def test_an_axis_that_changes_is_given_up() -> None:
    graph = Graph()
    body = graph.loop("loop", graph.argument("x", 4, 3))
    twice = graph.add("Unknown", "twice", [body, body], (FLOAT, (-1, 3)))
    graph.end("loop", twice)
    graph.op("Tanh", "tanh", body)
    rows, columns = shape(graph.imported(), "tanh:0") or ()
    assert isinstance(rows, Symbol)
    assert columns == 3


def test_a_rank_that_changes_is_unknown() -> None:
    graph = Graph()
    body = graph.loop("loop", graph.argument("x", 4, 3))
    graph.end("loop", graph.argument("y", 4))
    graph.op("Tanh", "tanh", body)
    assert "rank that the IR lacks" in (graph.imported().nodes["tanh"].reason or "")


def test_variables_that_swap_their_shapes() -> None:
    """Each comes back with the other's: what one assumption gives up, the other loses too."""
    graph = Graph()
    a, b = graph.loop("loop/a", graph.argument("x", 4, 3)), graph.loop("loop/b", graph.argument("y", 5, 3))
    graph.end("loop/a", graph.op("Neg", "a_next", b))
    graph.end("loop/b", graph.op("Neg", "b_next", a))
    imported = graph.imported()
    for name in ("a_next:0", "b_next:0"):
        rows, columns = shape(imported, name) or ()
        assert isinstance(rows, Symbol)
        assert columns == 3


def lists(*pushed: tuple[int, ...]) -> ImportedGraph:
    """One loop pushes arguments of these shapes, another pops."""
    graph = Graph()
    graph.add("EmptyTensorList", "empty", [], (VARIANT, ()))
    handle = graph.loop("forwards", "empty", VARIANT)
    for i, dims in enumerate(pushed):
        handle = graph.push(f"push{i}", handle, graph.argument(f"x{i}", *dims))
    handle = graph.loop("backwards", graph.end("forwards", handle, VARIANT), VARIANT)
    graph.op("Tanh", "tanh", graph.pop("pop", handle))
    graph.end("backwards", "pop", VARIANT)
    return graph.imported()


def test_what_is_popped_has_the_shape_of_what_was_pushed() -> None:
    assert shape(lists((-2, 3)), "tanh:0") == (Symbol("s2"), 3)
    assert shape(lists((-2, 3), (-2, 3)), "tanh:0") == (Symbol("s2"), 3)


def test_elements_of_different_shapes() -> None:
    assert shape(lists((4, 3), (5, 3)), "tanh:0") is None


def test_a_size_that_a_loop_makes_is_not_that_of_another_iteration() -> None:
    graph = Graph()
    graph.add("EmptyTensorList", "empty", [], (VARIANT, ()))
    handle = graph.loop("forwards", "empty", VARIANT)
    frame = tf.compat.v1.AttrValue(s=b"frame_forwards")
    inside = graph.add("Enter", "x/enter", [graph.argument("x", 9)], (FLOAT, (9,)), frame_name=frame)
    found = graph.add("Where", "where", [inside], (FLOAT, (-7, 1)))
    handle = graph.loop("backwards", graph.end("forwards", graph.push("push", handle, found), VARIANT), VARIANT)
    graph.op("Tanh", "tanh", graph.pop("pop", handle))
    graph.end("backwards", "pop", VARIANT)
    rows, columns = shape(graph.imported(), "tanh:0") or ()
    assert rows != Symbol("s7")
    assert columns == 1


def test_a_size_that_is_made_before_the_loops_is_the_same_in_all_iterations() -> None:
    graph = Graph()
    graph.add("EmptyTensorList", "empty", [], (VARIANT, ()))
    handle = graph.loop("forwards", "empty", VARIANT)
    found = graph.add("Where", "where", [graph.argument("x", 9)], (FLOAT, (-7, 1)))
    handle = graph.loop("backwards", graph.end("forwards", graph.push("push", handle, found), VARIANT), VARIANT)
    graph.op("Tanh", "tanh", graph.pop("pop", handle))
    graph.end("backwards", "pop", VARIANT)
    assert shape(graph.imported(), "tanh:0") == (Symbol("s7"), 1)


def test_a_list_of_unknown_origin() -> None:
    graph = Graph()
    graph.add("Placeholder", "handle", [], (VARIANT, ()))
    graph.op("Tanh", "tanh", graph.pop("pop", graph.push("push", "handle", graph.argument("x", 4))))
    assert shape(graph.imported(), "tanh:0") is None


def test_an_element_of_a_list_of_lists_has_the_shape_of_what_was_pushed_to_the_inner_one() -> None:
    """The gradient of a loop in a loop keeps the inner loop's lists in a list; the list itself is a scalar."""
    graph = Graph()
    graph.add("Const", "zero", [], (3, (0,)), value=vector(0))
    for name in ("inner", "outer"):
        graph.add("EmptyTensorList", name, ["zero", "zero"], (VARIANT, ()))
    inner = graph.push("push", "inner", graph.argument("x", 4, 2))
    graph.add("TensorListPopBack", "pop_list", [graph.push("push_list", "outer", inner)], (VARIANT, ()), (VARIANT, ()))
    graph.op("Tanh", "tanh", graph.pop("pop", "pop_list:1"))
    assert shape(graph.imported(), "tanh:0") == (4, 2)


def test_a_list_that_is_an_element_of_itself_is_unknown() -> None:
    graph = Graph()
    graph.add("Const", "zero", [], (3, (0,)), value=vector(0))
    graph.add("EmptyTensorList", "empty", ["zero", "zero"], (VARIANT, ()))
    handle = graph.loop("loop", "empty", VARIANT)
    graph.add("TensorListPopBack", "pop_list", [handle], (VARIANT, ()), (VARIANT, ()))
    graph.end("loop", "pop_list:1", VARIANT)
    graph.op("Tanh", "tanh", graph.pop("pop", "loop/exit"))
    assert shape(graph.imported(), "tanh:0") is None


def test_matmuls_have_shapes_on_cpus_too() -> None:
    graph = Graph()
    body = graph.loop("loop", graph.argument("x", -2, 3))
    graph.argument("w", 3, 3)
    graph.add("MatMul", "matmul", [body, "w"], (FLOAT, (-1, 3)), T=tf.compat.v1.AttrValue(type=FLOAT),
              transpose_a=tf.compat.v1.AttrValue(b=False), transpose_b=tf.compat.v1.AttrValue(b=False))  # fmt: skip
    graph.end("loop", graph.op("Tanh", "tanh", "matmul"))
    imported = graph.imported()
    assert imported.nodes["matmul"].reason == "MatMul is a library call"
    assert shape(imported, "tanh:0") == (Symbol("s2"), 3)


def test_the_gradient_of_a_loop() -> None:
    """What TensorFlow 2 makes of it, once its loops are lowered, has no operation of unknown rank."""

    def loss(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(y) * x), (0, tf.zeros_like(x)))[1]

    def gradient(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = loss(x)
        return tape.gradient(y, x)

    concrete = tf.function(gradient).get_concrete_function(tf.TensorSpec([4, 3]))
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    graph = convert_variables_to_constants_v2(concrete, lower_control_flow=True).graph
    imported = import_graph(graph.as_graph_def(), types_of_graph(graph))
    assert "TensorListPopBack" in {node.op for node in imported.nodes.values()}
    unknown = [f"{node.name} {node.reason}" for node in imported.nodes.values() if "rank that" in (node.reason or "")]
    assert unknown == []


def stacked(rows: int) -> Graph:
    """A list with as many elements as x has rows is stacked; TensorFlow calls that size `rows`."""
    graph = Graph()
    graph.argument("x", -2, 3)
    count = graph.add("Shape", "shape", ["x"], (INT32, (2,)))
    first = [graph.add("Const", name, [], (INT32, (1,)), value=vector(at)) for name, at in (("at", 0), ("next", 1))]
    size = graph.add("StridedSlice", "size", [count, first[0], first[1], first[1]], (INT32, ()),
                     shrink_axis_mask=tf.compat.v1.AttrValue(i=1))
    reserve = graph.add("TensorListReserve", "reserve", ["x", size], (VARIANT, ()))
    stack = graph.add("TensorListStack", "stack", [reserve], (FLOAT, (rows, 3)))
    graph.add("Unknown", "unknown", [stack], (FLOAT, (rows, 3)))
    graph.op("AddV2", "add", "unknown", "x")
    return graph


def test_the_size_of_a_stacked_list_goes_by_one_name() -> None:
    """Also where an op that is not imported has that size by TensorFlow's name."""
    for rows in (-1, -5, -2):
        imported = stacked(rows).imported()
        assert shape(imported, "stack:0") == (Symbol("s2"), 3)
        if rows != -1:
            assert shape(imported, "add:0") == (Symbol("s2"), 3)
            assert imported.nodes["add"].reason is None
