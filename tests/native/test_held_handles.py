"""Regions whose variables their function holds: by number, not as inputs of the op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.types_pb2 import DT_FLOAT, DT_RESOURCE

from tests.native.conftest import OUTPUT, VARIABLE, Regions, executable, launch
from tests.native.test_stitch_op import KERNELS, Symbols
from tf_stitch.native.fallback_call import FallbackCall

_numbers = count(1 << 40)


@pytest.fixture(scope="module")
def kernel(compile_c: Callable[[str], Symbols]) -> Symbols:
    return compile_c(KERNELS)


@pytest.fixture
def held(regions: Regions) -> Iterator[Callable[[Any], int]]:
    """Gives a variable a number."""
    numbers = []

    def hold(variable: Any) -> int:
        numbers.append(next(_numbers))
        assert regions.library.hold([variable.handle], numbers[-1])
        return numbers[-1]

    yield hold
    for number in numbers:
        regions.library.release(number, 1)


def call(regions: Regions, region: int, numbers: list[int], inputs: tuple[Any, ...] = (),
         types: tuple[Any, ...] = (tf.float32,)) -> Any:
    return regions.library.raw_ops.stitch_state_op(inputs=list(inputs), variables=[], Tout=list(types), region=region,
                                                   output_shapes=[], held=numbers)


def ramp() -> tf.Tensor:
    return tf.range(8, dtype=tf.float32) * 1.0


def test_values_and_updates(regions: Regions, kernel: Symbols, held: Callable[[Any], int]) -> None:
    one, two = tf.Variable(ramp()), tf.Variable(ramp() * 10)
    steps = [launch(kernel("add"), (VARIABLE, 0), (VARIABLE, 1), (OUTPUT, 0)),
             launch(kernel("increment"), (VARIABLE, 1))]
    region = regions.add(lambda key: executable([[8]], steps, state=[(1, 0)]))
    numbers = [held(one), held(two)]
    for k in range(3):
        np.testing.assert_array_equal(call(regions, region, numbers)[0], np.arange(8) * 11 + k)
    np.testing.assert_array_equal(two, np.arange(8) * 10 + 3)
    two.assign(ramp())
    np.testing.assert_array_equal(call(regions, region, numbers)[0], np.arange(8) * 2)
    assert regions.builds[region] == [(1, 1, 8, 1, 8)], "the key is that of variables that are passed"


def test_through_python(regions: Regions, held: Callable[[Any], int]) -> None:
    def fallback(call: FallbackCall) -> None:
        call.set_output(0, call.inputs[0] + call.variables[0])
        call.set_state(0, call.variables[0] * 2)

    variable = tf.Variable(ramp())
    region, numbers = regions.add(lambda key: None, fallback), [held(variable)]
    for factor in (2, 3):
        np.testing.assert_array_equal(call(regions, region, numbers, (ramp(),))[0], np.arange(8) * factor)
    np.testing.assert_array_equal(variable, np.arange(8) * 4)


def test_by_its_own_nodes(regions: Regions, held: Callable[[Any], int]) -> None:
    """They have the handles as arguments."""
    function = FunctionDef()
    function.signature.name = "own"
    function.signature.input_arg.add(name="tfs_i0", type=DT_FLOAT)
    function.signature.input_arg.add(name="tfs_v0", type=DT_RESOURCE)
    function.signature.output_arg.add(name="o0", type=DT_FLOAT)
    function.signature.is_stateful = True
    read = function.node_def.add(name="read", op="ReadVariableOp", input=["tfs_v0"])
    read.attr["dtype"].type = DT_FLOAT
    add = function.node_def.add(name="add", op="AddV2", input=["tfs_i0", "read:value:0"])
    add.attr["T"].type = DT_FLOAT
    function.ret["o0"] = "add:z:0"
    region = regions.add(lambda key: None, subgraph=lambda reason: function.SerializeToString())
    result = call(regions, region, [held(tf.Variable(ramp() * 3))], (ramp(),))[0]
    np.testing.assert_array_equal(result, np.arange(8) * 4)


def test_a_variable_lives_as_long_as_who_holds_it(regions: Regions, kernel: Symbols) -> None:
    number = next(_numbers)
    variable = tf.Variable(ramp())
    assert regions.library.hold([variable.handle], number)
    del variable
    region = regions.add(lambda key: executable([[8]], [launch(kernel("increment_to"), (VARIABLE, 0), (OUTPUT, 0))]))
    np.testing.assert_array_equal(call(regions, region, [number])[0], np.arange(8) + 1)
    regions.library.release(number, 1)
    with pytest.raises(tf.errors.FailedPreconditionError, match=f"no function holds a variable of number {number}"):
        call(regions, regions.add(lambda key: None), [number])


def test_what_is_not_held(regions: Regions) -> None:
    """A table; a variable by name, which anybody can delete. Nothing gets a number."""
    initializer = tf.lookup.KeyValueTensorInitializer([1], [2])
    table = tf.lookup.StaticHashTable(initializer, 0)
    named = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[8], shared_name="anybodys")
    for handle in (table.resource_handle, named):
        number = next(_numbers)
        next(_numbers)
        assert not regions.library.hold([tf.Variable(1.0).handle, handle], number)
        with pytest.raises(tf.errors.FailedPreconditionError, match="no function holds"):
            call(regions, regions.add(lambda key: None), [number])


def test_variables_come_in_one_way(regions: Regions, held: Callable[[Any], int]) -> None:
    variable = tf.Variable(ramp())
    with pytest.raises(tf.errors.InvalidArgumentError, match="passed, named or held"):
        regions.library.raw_ops.stitch_state_op(inputs=[], variables=[variable.handle], Tout=[], output_shapes=[],
                                                region=regions.add(lambda key: None), held=[held(variable)])
