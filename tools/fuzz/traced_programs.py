"""Programs out of traced functions: each node of the graph becomes a call of TensorFlow's raw op."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tools.fuzz.programs import Program, Step

_MOST_ELEMENTS = 512


class UntranslatableError(Exception):
    """The graph holds what a program cannot say."""


def traced_program(function: Callable[..., Any], specs: Sequence[tf.TensorSpec], calls: int = 2) -> Program:
    """The program that `function` is when traced; random inputs, random values for its variables.

    Raises:
        UntranslatableError: a node holds a function, or a large constant of integers.
    """
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    graph, names = concrete.graph, dict[str, str]()
    inputs, constants, steps = dict[str, str](), dict[str, str](), list[Step]()
    for i, (tensor, spec) in enumerate(zip(concrete.inputs, specs, strict=False)):
        names[tensor.name] = f"x{i}"
        inputs[f"x{i}"] = f"tf.TensorSpec({spec.shape.as_list()}, tf.{spec.dtype.name})"
    variables = {placeholder.name: handle for handle, placeholder in graph.captures}
    owners = {id(v.handle): v for v in graph.variables}
    for number, op in enumerate(graph.get_operations()):
        if op.type == "Placeholder":
            held = variables.get(op.outputs[0].name)
            if held is not None:
                variable = owners[id(held)]
                names[op.outputs[0].name] = f"v{number}"
                constants[f"v{number}"] = f"tf.Variable({_random(variable.shape, variable.dtype, number)})"
        elif op.type == "ReadVariableOp":
            names[op.outputs[0].name] = names[op.inputs[0].name]
        elif op.type != "NoOp":
            steps.append(_step(op, number, names))
    outputs = [names[t.name] for t in concrete.outputs]
    texts = [tuple(_random(spec.shape, spec.dtype, 100 * call + i) for i, spec in enumerate(specs))
             for call in range(calls)]  # fmt: skip
    return Program(inputs, tuple(texts), constants, tuple(steps), tuple(outputs))


def _step(op: Any, number: int, names: dict[str, str]) -> Step:
    if op.type == "Const":
        text = _constant(tf.make_ndarray(op.get_attr("value")), op.outputs[0].dtype, number)
    else:
        text = f"tf.raw_ops.{op.type}({', '.join(_arguments(op, names))})"
    made = [f"a{number}" if i == 0 else f"a{number}{i:02}" for i in range(len(op.outputs))]
    names.update({tensor.name: name for tensor, name in zip(op.outputs, made, strict=True)})
    if len(made) == 1 and op.op_def.output_arg[0].number_attr:
        text = f"{text}[0]"
    return Step(tuple(made), text, op.outputs[0].dtype.is_floating if made else False)


def _arguments(op: Any, names: dict[str, str]) -> Iterator[str]:
    inputs = [names[t.name] for t in op.inputs]
    for argument in op.op_def.input_arg:
        if argument.number_attr or argument.type_list_attr:
            length = op.get_attr(argument.number_attr or argument.type_list_attr)
            count = length if argument.number_attr else len(length)
            yield f"{argument.name}=[{', '.join(inputs[:count])}]"
            inputs = inputs[count:]
        else:
            yield f"{argument.name}={inputs.pop(0)}"
    taken = {a.name for a in op.op_def.input_arg}
    for name in inspect.signature(getattr(tf.raw_ops, op.type)).parameters:
        if name not in taken and name != "name":
            yield f"{name}={_attribute(op.get_attr(name))}"


def _attribute(value: Any) -> str:
    if isinstance(value, tf.DType):
        return f"tf.{value.name}"
    if isinstance(value, list):
        return f"[{', '.join(map(_attribute, value))}]"
    if isinstance(value, bytes):
        return repr(value.decode())
    if isinstance(value, bool | int | float):
        return repr(value)
    raise UntranslatableError(f"attribute {value!r}")


def _constant(value: Any, dtype: tf.DType, number: int) -> str:
    if value.size <= _MOST_ELEMENTS:
        plain = value.astype(np.float64) if dtype.is_floating else value
        text = f"np.array({plain.tolist()!r})" if value.size else f"np.zeros({value.shape})"
        return f"tf.cast({text}, tf.{dtype.name})"
    if not dtype.is_floating:
        raise UntranslatableError(f"a constant of {value.size} {dtype.name}")
    return _random(value.shape, dtype, number)


def _random(shape: Any, dtype: tf.DType, seed: int) -> str:
    size = tuple(int(d) for d in shape)
    if dtype.is_floating:
        return f"tf.cast(np.random.RandomState({seed}).standard_normal({size}), tf.{dtype.name})"
    low, high = (0, 2) if dtype == tf.bool else (-4, 9)
    return f"tf.cast(np.random.RandomState({seed}).randint({low}, {high}, {size}), tf.{dtype.name})"
