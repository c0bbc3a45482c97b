"""Constants that are said by less than their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.frontend.check import trace
from tests.frontend.values import normal, numpy_dtype
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import ConstantAttrs
from tf_stitch.ir.op_kinds import OpKind

DTYPES = ("bool", "float32", "float64", "float16", "bfloat16", "int32", "int64", "uint64")


def imported(array: Any) -> Node:
    """The node of a Const; its value is the array's, bit by bit."""
    array = np.asarray(array)
    graph = tf.compat.v1.GraphDef()
    node = graph.node.add(name="c", op="Const")
    dtype = tf.dtypes.as_dtype(array.dtype).as_datatype_enum
    node.attr["dtype"].type = dtype
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(array))
    value = import_graph(graph, lambda name: [(dtype, array.shape)]).value("c:0")
    assert value is not None
    found = interpret(TensorGraph("c", [("c", value)]), {})["c"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    return value


def elements(node: Node) -> int:
    """Of constants that the node is made of."""
    return sum(n.attrs.value.size for n in TensorGraph("c", [("c", node)]).nodes()
               if isinstance(n.attrs, ConstantAttrs))


def kinds(node: Node) -> set[OpKind]:
    return {n.kind for n in TensorGraph("c", [("c", node)]).nodes()}


def triangle(shape: tuple[int, ...], ahead: int = 0, one: Any = True, other: Any = False, dtype: str = "bool") -> Any:
    seen = np.tri(*shape[-2:], ahead, dtype=bool)
    values = np.array([one, other]).astype(numpy_dtype(dtype))
    return np.broadcast_to(np.where(seen, *values), shape).copy()


@pytest.mark.parametrize("shape", [(4, 2, 40, 40), (1, 1, 32, 32), (40, 40), (3, 30, 70), (2, 70, 30)])
@pytest.mark.parametrize("ahead", [0, 3, 27])
@pytest.mark.parametrize("inverted", [False, True])
def test_a_causal_mask_is_a_comparison_of_positions(shape: tuple[int, ...], ahead: int, inverted: bool) -> None:
    node = imported(triangle(shape, ahead, not inverted, inverted))
    assert elements(node) == (ahead != 0)
    assert (OpKind.BROADCAST in kinds(node)) == ((len(shape) > 2 and shape[:-2] != (1, 1)) or ahead != 0)
    assert OpKind.LESS_EQUAL in kinds(node)
    assert max(n.type.numel for n in TensorGraph("c", [("c", node)]).nodes()
               if n.kind is OpKind.IOTA) == shape[-2] * shape[-1]


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("shape", [(4, 2, 40, 40), (36, 50)])
def test_a_causal_mask_of_numbers_is_a_choice(dtype: str, shape: tuple[int, ...]) -> None:
    for one, other in ((0, 9999), (1, 0), *(((0, -1e4), (-0.0, -np.inf), (0.0, np.nan)) if "float" in dtype else ())):
        node = imported(triangle(shape, 0, one, other, dtype))
        assert elements(node) == 2
        assert OpKind.SELECT in kinds(node)


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (np.nan, 1.0), (np.nan, np.nan), (-0.0, 0.0)])
def test_values_that_compare_otherwise_keep_their_bits(one: float, other: float) -> None:
    """Whatever is made of them."""
    imported(triangle((4, 2, 40, 40), 0, one, other, "float32"))
    signs = triangle((64, 64), 0, one, other, "float32")
    signs[5, 5] = -signs[5, 5]
    imported(signs)


@pytest.mark.parametrize("at", [(0, 0), (0, 39), (39, 0), (39, 39), (20, 20), (20, 21)])
@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_an_almost_causal_mask_stays_as_it_was(at: tuple[int, int], dtype: str) -> None:
    mask = triangle((40, 40), 0, 1, 0, dtype)
    mask[at] = 1 - mask[at]
    assert imported(mask).kind is OpKind.CONSTANT
    repeated = imported(np.tile(mask, (3, 2, 1, 1)))
    assert repeated.kind is OpKind.BROADCAST
    assert repeated.operands[0].kind is OpKind.CONSTANT
    assert elements(repeated) == 1600


def test_zero_of_the_other_sign_is_another_value() -> None:
    mask = triangle((40, 40), 0, 0.0, -1e9, "float32")
    mask[30, 3] = -0.0
    assert imported(mask).kind is OpKind.CONSTANT


def test_one_of_many_matrices_differs() -> None:
    mask = triangle((4, 2, 40, 40))
    mask[2, 1, 3, 30] = True
    assert imported(mask).kind is OpKind.CONSTANT
    mask[2, 0, 3, 30] = True
    node = imported(mask)
    assert (node.kind, elements(node)) == (OpKind.BROADCAST, 4 * 1600)


@pytest.mark.parametrize("small", [(1, 64), (64, 1), (1, 1, 16), (8, 1, 16), (1, 16, 1), (5, 1, 1)])
def test_what_repeats_along_an_axis_is_said_once(small: tuple[int, ...]) -> None:
    shape = tuple(n if n > 1 else 40 for n in small)
    row = normal(small)
    node = imported(np.ascontiguousarray(np.broadcast_to(row, shape)))
    if np.prod(shape) >= 1024:
        assert node.kind is OpKind.BROADCAST
        assert node.operands[0].type.shape == small
    else:
        assert node.kind is OpKind.CONSTANT


def test_small_constants_are_as_they_were() -> None:
    assert imported(triangle((31, 33))).kind is OpKind.CONSTANT  # of 1023 elements
    assert imported(np.repeat(normal((1, 33)), 31, 0)).kind is OpKind.CONSTANT
    assert imported(triangle((32, 32))).kind is OpKind.LESS_EQUAL


def test_few_positions_for_many_matrices() -> None:
    node = imported(triangle((8, 4, 8, 8)))
    assert (node.kind, elements(node)) == (OpKind.BROADCAST, 64)


def test_constants_of_no_elements() -> None:
    for shape in ((0,), (3, 0), (0, 40, 40)):
        assert imported(np.zeros(shape, np.float32)).kind is OpKind.CONSTANT


def reasons(array: Any) -> list[str]:
    traced = trace(lambda x: x + tf.constant(array), tf.TensorSpec(array.shape, array.dtype))
    return list(traced.opaque().values())


def test_large_constants() -> None:
    """Those of few elements are made, others are read."""
    assert reasons(triangle((4, 2, 300, 300), 0, 0, -1e9, "float32")) == []
    assert reasons(np.repeat(normal((1, 300)), 300, 0)) == []
    for array in (normal((300, 300)), np.repeat(normal((1, 300, 300)), 2, 0)):
        assert reasons(array) == [f"a constant of {array.size} elements is read, not compiled in"]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_constant_is_itself(data: st.DataObject) -> None:
    """Bit by bit: few values, of which some compare equal, or to nothing, repeated along some of the axes."""
    dtype = data.draw(st.sampled_from(DTYPES))
    values = np.array([0.0, 1.0, *((-0.0, np.nan, -np.inf) if "float" in dtype else ())]).astype(numpy_dtype(dtype))
    pick = st.integers(0, len(values) - 1)
    rows, columns = data.draw(st.integers(1, 40)), data.draw(st.integers(26, 40))
    if data.draw(st.booleans()):
        index = np.where(np.tri(rows, columns, data.draw(st.integers(-3, columns)), dtype=bool),
                         data.draw(pick), data.draw(pick))
    else:
        row, column = (data.draw(hnp.arrays(np.int64, n, elements=pick)) for n in ((rows, 1), (1, columns)))
        index = np.maximum(row, column)
    for _ in range(data.draw(st.integers(0, 2))):
        index[data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))] = data.draw(pick)
    leading = data.draw(st.sampled_from([(), (1,), (3,), (2, 20)]))
    imported(values[np.ascontiguousarray(np.broadcast_to(index, (*leading, rows, columns)))])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("first", "step"), [(0, 1), (5, 1), (96, -1), (-7, 3)])
@pytest.mark.parametrize("shape", [(97,), (1, 97, 1), (16,)])
def test_numbers_in_equal_steps_are_positions(dtype: str, first: int, step: int, shape: tuple[int, ...]) -> None:
    numbers = (first + step * np.arange(max(shape))).astype(dtype).reshape(shape)
    value = imported(numbers)
    assert OpKind.IOTA in kinds(value)
    assert elements(value) <= 2


@pytest.mark.parametrize("numbers", [
    np.arange(15, dtype=np.int32), np.arange(32, dtype=np.int32).reshape(4, 8), np.arange(20, dtype=np.float32),
    np.arange(20, dtype=np.uint64), np.array([*range(19), 20], np.int32),
    np.array([2**31 - 20 + i for i in range(20)], np.int32), np.linspace(-2**31, 2**31 - 1, 18).astype(np.int32)])
def test_other_numbers_are_looked_up(numbers: Any) -> None:
    """Few, in rows, of other types, with a step that differs, or with numbers near the end of what the type holds."""
    value = imported(numbers)
    assert OpKind.IOTA not in kinds(value)
