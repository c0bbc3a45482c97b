"""Partial constants of integer tensors: TensorFlow's shape arithmetic, evaluated while the graph is rewritten.

A value is a NumPy object array of int, Symbol (a dimension) or None (unknown). An operation on symbols is
done only where it is exact for every size, zero included: max(n, 1) stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext, StaticValue
from tf_stitch.ir.types import Shape, Symbol

Element: TypeAlias = int | Symbol | None
Rule: TypeAlias = Callable[[NodeContext], Sequence[StaticValue | None]]

MAX_ELEMENTS = 4096
STATIC_RULES: dict[str, Rule] = {}
# Ops whose results describe shapes and nothing else: never worth a kernel.
SHAPE_OPS = frozenset({"Shape", "ShapeN", "Rank", "BroadcastGradientArgs", "BroadcastArgs", "ConcatOffset",
                       "VariableShape", "DataFormatDimMap", "DataFormatVecPermute"})


def evaluate(ctx: NodeContext) -> list[StaticValue | None]:
    """What is known of each output of the node; one None per output if nothing."""
    rule = STATIC_RULES.get(ctx.op)
    nothing: list[StaticValue | None] = [None] * len(ctx.output_specs)
    if rule is None:
        return nothing
    try:
        values = list(rule(ctx))
    except UnsupportedError:  # an attribute or operand that the rule needs is not known: nothing is known
        return nothing
    except (IndexError, ValueError):  # operands that do not fit, as in a branch never taken: the op says so if it runs
        return nothing
    assert len(values) == len(nothing), f"{ctx.op} gave {len(values)} values for {len(nothing)} outputs"
    return [v if (v is not None and v.size <= MAX_ELEMENTS and any(e is not None for e in v.flat)) or
            (v is not None and v.size == 0) else None for v in values]


def static_rule(*ops: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for op in ops:
            STATIC_RULES[op] = rule
        return rule

    return register


def as_static(value: Any) -> StaticValue:
    """A (nested) sequence of elements, or an integer array, as a static value."""
    if isinstance(value, np.ndarray):
        out = np.empty(value.shape, object)
        out.reshape(-1)[:] = [int(e) for e in value.flat]
        return out
    return np.array(value, dtype=object)


def of_shape(shape: Shape | None) -> StaticValue | None:
    return None if shape is None else as_static(list(shape))


def required(ctx: NodeContext, index: int) -> StaticValue:
    value = ctx.static(index)
    if value is None:
        raise UnsupportedError("unknown")
    return value


def add(x: Element, y: Element) -> Element:
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    return y if x == 0 else x if y == 0 else None


def product(elements: Sequence[Element]) -> Element:
    """Product of the elements; a symbol survives if it is the only one and the rest is 1."""
    number = 1
    others: list[Element] = []
    for e in elements:
        if isinstance(e, int):
            number *= e
        else:
            others.append(e)
    if not others or (number == 0 and None not in others):
        return number
    return others[0] if len(others) == 1 and number == 1 else None
