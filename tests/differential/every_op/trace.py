"""Cases as nodes of a TensorFlow graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_library, op_def_registry

from tests.differential.every_op.case import Array, Case, Fixed, Variable
from tests.differential.every_op.differences import IN_FLOAT64
from tf_stitch.ir.dtypes import DType

tf1 = tf.compat.v1


@dataclass
class Traced:
    """A case in the graph.

    Attributes:
        outputs: tensors, or variables that the op writes.
        variables: by the argument that takes their handle.
    """

    case: Case
    op: Any
    fed: dict[Any, Array] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)


def fetched(t: Traced) -> dict[str, Any]:
    """Tensors of all results, after the op has run."""
    return {what: out.read_value() if isinstance(out, tf.Variable) else out for what, out in t.outputs.items()}


def others(case: Case) -> list[Case]:
    """The same, computed in other ways."""
    return _wider(case, DType.F64 if starts(case.name, IN_FLOAT64) else DType.F32)


def starts(name: str, table: Mapping[str, str]) -> str:
    """The entry of a table of differences that a case's name starts with, or ""."""
    return next((key for key in table if f"{name} ".startswith(f"{key} ")), "")


def _wider(case: Case, dtype: DType) -> list[Case]:
    """The same with floats that are wider, if it has narrower ones."""
    narrow = [d for d in (DType.F16, DType.BF16, DType.F32) if d.size < dtype.size]

    def widen(value: Any) -> Any:
        if isinstance(value, list):
            return [widen(v) for v in value]
        if isinstance(value, Fixed | Variable):
            return replace(value, value=widen(value.value))
        return value.astype(dtype.numpy) if value.dtype in [d.numpy for d in narrow] else value

    inputs = {name: widen(value) for name, value in case.inputs.items()}
    changed = any(_dtypes(a) != _dtypes(b) for a, b in zip(inputs.values(), case.inputs.values(), strict=True))
    if not changed or case.op in ("Cast", "Bitcast"):
        return []
    names = [d.value for d in narrow]
    return [replace(case, inputs=inputs, attrs={n: dtype.value if isinstance(v, str) and v in names else v
                                                for n, v in case.attrs.items()})]


def _dtypes(value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    return [(v.value if isinstance(v, Fixed | Variable) else v).dtype for v in values]


def trace(case: Case, index: str) -> Traced:
    """Under the name c<index>, in the graph that is the default."""
    t = Traced(case, None)
    with tf1.name_scope(f"c{index}"):
        arguments = {name: _argument(t, name, value) for name, value in case.inputs.items()}
        result = op_def_library.apply_op(case.op, **arguments, **(_defaults(case.op) | case.attrs))
        outputs = list(result) if isinstance(result, list | tuple) else [result]
        t.op = outputs[0] if isinstance(outputs[0], tf.Operation) else outputs[0].op
        tensors = t.op.outputs
        for i in range(len(tensors)) if case.outputs is None else case.outputs:
            t.outputs[f"output {i}"] = tensors[i]
        if not tensors:
            t.outputs |= {f"variable {name}": variable for name, variable in t.variables.items()}
        if case.gradient and not t.variables:
            _trace_gradients(t, arguments)
    return t


def _defaults(op: str) -> dict[str, Any]:
    """Values of the attributes that have one in the op's definition and that no input tells."""
    found: dict[str, Any] = {}
    definition = op_def_registry.get(op)
    told = {name for arg in definition.input_arg for name in (arg.type_attr, arg.type_list_attr, arg.number_attr)}
    for attr in definition.attr:
        kind = attr.default_value.WhichOneof("value")
        if kind is not None and attr.name not in told:
            value = getattr(attr.default_value, kind)
            found[attr.name] = [] if kind == "list" else value
            if kind == "list" and (field := next((f for _, f in value.ListFields()), None)) is not None:
                found[attr.name] = list(field)
    return found


def _argument(t: Traced, name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_argument(t, f"{name}{i}", v) for i, v in enumerate(value)]
    if isinstance(value, Fixed):
        return tf.constant(value.value)
    if isinstance(value, Variable):
        t.variables[name] = tf1.Variable(value.value, use_resource=True, name=name,
                                         shape=tf.TensorShape(None) if t.case.unknown == "all" else None)
        return t.variables[name].handle
    placeholder = tf1.placeholder(value.dtype, [None] * value.ndim if t.case.unknown else value.shape, name)
    t.fed[placeholder] = value
    return placeholder


def _trace_gradients(t: Traced, arguments: dict[str, Any]) -> None:
    inputs = {p.op.name.rpartition("/")[2]: p for p in t.fed if p.dtype.is_floating}
    outputs = [o for o in t.outputs.values() if o.dtype.is_floating]
    if not inputs or not outputs:
        return
    cotangents = []
    for i, output in enumerate(outputs):
        shape = tuple(output.shape.as_list())
        values = np.resize(np.array([1, -2, 0.5, 3, -0.25, 0, 1.5]), shape).astype(output.dtype.as_numpy_dtype)
        cotangents.append(_argument(t, f"dy{i}", values))
    try:
        found = tf1.gradients(outputs, list(inputs.values()), cotangents)
    except LookupError:
        return
    for name, gradient in zip(inputs, found, strict=True):
        if gradient is not None:
            t.outputs[f"gradient of {name}"] = tf.convert_to_tensor(gradient) \
                if not isinstance(gradient, tf.IndexedSlices) else gradient.values
