"""Draws programs that read and update a few variables: dead stores, values written back, branches, loops, and slow
consumers that no region holds. Each runs in TensorFlow and, with the same meaning, in NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import tensorflow as tf

SIDE = 4
"""Rows and columns of all values."""
FLAGS = 3
"""Conditions that a call gives."""
UNARY = ("tanh", "sigmoid", "slow", "same")
BINARY = ("mean", "half difference", "product", "zeros like the first and the second")
_MOST_TRIPS = 3


@dataclass(frozen=True)
class Read:
    """Gives a variable's value to a name."""

    to: str
    variable: int


@dataclass(frozen=True)
class Compute:
    to: str
    op: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Update:
    """"assign", "add" or "sub"."""

    how: str
    variable: int
    value: str


@dataclass(frozen=True)
class Branch:
    """Gives `to` the value `given` of the side that runs."""

    to: str
    flag: int
    sides: tuple[Body, Body]


@dataclass(frozen=True)
class Loop:
    """Gives `to` what the last iteration gives; `first` if there is none.

    Attributes:
        trips: None: as many as the call says.
    """

    to: str
    first: str
    trips: int | None
    body: Body


@dataclass(frozen=True)
class Body:
    """Steps that may use the values around them. A loop's body finds the last iteration's value as "carried"."""

    steps: tuple[Step, ...]
    given: str


Step: TypeAlias = Read | Compute | Update | Branch | Loop


@dataclass(frozen=True)
class VariableProgram:
    """Begins with "x", and returns the values of `results`."""

    variables: int
    steps: tuple[Step, ...]
    results: tuple[str, ...]


class Machine(Protocol):
    """What a program runs on."""

    def compute(self, op: str, operands: Sequence[Any]) -> Any: ...

    def read(self, variable: int) -> Any: ...

    def update(self, how: str, variable: int, value: Any) -> None: ...

    def branch(self, flag: int, sides: Sequence[Callable[[], Any]]) -> Any: ...

    def loop(self, trips: int | None, first: Any, body: Callable[[Any], Any]) -> Any: ...


def run(program: VariableProgram, machine: Machine, x: Any) -> list[Any]:
    """The program's results."""
    values = {"x": x}
    _run(program.steps, machine, values)
    return [values[name] for name in program.results]


def _run(steps: Sequence[Step], machine: Machine, values: dict[str, Any]) -> None:
    for step in steps:
        match step:
            case Read():
                values[step.to] = machine.read(step.variable)
            case Compute():
                values[step.to] = machine.compute(step.op, [values[name] for name in step.operands])
            case Update():
                machine.update(step.how, step.variable, values[step.value])
            case Branch():
                values[step.to] = machine.branch(step.flag, [_body(side, machine, values) for side in step.sides])
            case Loop():
                values[step.to] = machine.loop(step.trips, values[step.first], _body(step.body, machine, values))


def _body(body: Body, machine: Machine, around: dict[str, Any]) -> Callable[..., Any]:
    def result(*carried: Any) -> Any:  # a side of a branch carries nothing, and finds what the loop around it does
        values = dict(around)
        if carried:
            values["carried"] = carried[0]
        _run(body.steps, machine, values)
        return values[body.given]

    return result


@dataclass
class NumPyMachine:
    variables: list[Any]
    flags: Sequence[bool]
    trips: int

    def compute(self, op: str, operands: Sequence[Any]) -> Any:
        a, b = operands[0], operands[-1]
        return {"tanh": lambda: np.tanh(a), "sigmoid": lambda: 1 / (1 + np.exp(-a)), "same": lambda: a,
                "slow": lambda: np.linalg.inv(np.eye(SIDE) * 4 + np.tanh(a)), "mean": lambda: (a + b) * 0.5,
                "half difference": lambda: (a - b) * 0.5, "product": lambda: np.tanh(a) * np.tanh(b),
                "zeros like the first and the second": lambda: np.tanh(b)}[op]()

    def read(self, variable: int) -> Any:
        return self.variables[variable]

    def update(self, how: str, variable: int, value: Any) -> None:
        had = self.variables[variable]
        self.variables[variable] = {"assign": value, "add": had + value, "sub": had - value}[how]

    def branch(self, flag: int, sides: Sequence[Callable[[], Any]]) -> Any:
        return sides[0 if self.flags[flag] else 1]()

    def loop(self, trips: int | None, first: Any, body: Callable[[Any], Any]) -> Any:
        for _ in range(self.trips if trips is None else trips):
            first = body(first)
        return first


@dataclass
class TensorFlowMachine:
    variables: Sequence[tf.Variable]
    flags: tf.Tensor
    trips: tf.Tensor

    def compute(self, op: str, operands: Sequence[Any]) -> Any:
        a, b = operands[0], operands[-1]
        return {"tanh": lambda: tf.tanh(a), "sigmoid": lambda: tf.sigmoid(a), "same": lambda: tf.identity(a),
                "slow": lambda: tf.linalg.inv(tf.eye(SIDE) * 4 + tf.tanh(a)), "mean": lambda: (a + b) * 0.5,
                "half difference": lambda: (a - b) * 0.5, "product": lambda: tf.tanh(a) * tf.tanh(b),
                "zeros like the first and the second": lambda: tf.fill(tf.raw_ops.Shape(input=a), 0.0) + tf.tanh(b)
                }[op]()

    def read(self, variable: int) -> Any:
        return self.variables[variable].read_value()

    def update(self, how: str, variable: int, value: Any) -> None:
        of = self.variables[variable]
        {"assign": of.assign, "add": of.assign_add, "sub": of.assign_sub}[how](value)

    def branch(self, flag: int, sides: Sequence[Callable[[], Any]]) -> Any:
        return tf.cond(self.flags[flag], *sides)

    def loop(self, trips: int | None, first: Any, body: Callable[[Any], Any]) -> Any:
        end = self.trips if trips is None else tf.constant(trips)
        return tf.while_loop(lambda i, _: i < end, lambda i, value: (i + 1, body(value)), (0, first))[1]


def draw(seed: int) -> VariableProgram:
    """The program of a seed."""
    return _Drawer(random.Random(seed)).program()


class _Drawer:
    def __init__(self, rng: random.Random) -> None:
        self._rng, self._count = rng, 0
        self._variables = rng.randrange(1, 4)

    def program(self) -> VariableProgram:
        names = ["x"]
        steps = self._steps(names, self._rng.randrange(5, 14), depth=0)
        results = [name for name in names if self._rng.random() < 0.5] or names[-1:]
        return VariableProgram(self._variables, tuple(steps), tuple(results))

    def _steps(self, names: list[str], count: int, depth: int) -> list[Step]:
        steps: list[Step] = []
        for _ in range(count):
            kind = self._rng.choices(("read", "unary", "binary", "update", "twice", "branch", "loop"),
                                     (5, 4, 4, 5, 2, 1.2 * (depth < 2), 1.2 * (depth < 2)))[0]
            steps += self._drawn(kind, names, depth)
        return steps

    def _drawn(self, kind: str, names: list[str], depth: int) -> list[Step]:
        rng, variable = self._rng, self._rng.randrange(self._variables)
        if kind == "read":
            return [Read(self._new(names), variable)]
        if kind == "unary":
            return [Compute(op=rng.choice(UNARY), operands=(self._one(names),), to=self._new(names))]
        if kind == "binary":
            return [Compute(op=rng.choice(BINARY), operands=(self._one(names), self._one(names)), to=self._new(names))]
        if kind == "update":
            return [Update(rng.choice(("assign", "assign", "add", "sub")), variable, self._one(names))]
        if kind == "twice":  # a store that nobody sees
            return [Update("assign", variable, self._one(names)), Update("assign", variable, self._one(names))]
        if kind == "branch":
            sides = self._body(names, depth), self._body(names, depth)
            return [Branch(self._new(names), rng.randrange(FLAGS), sides)]
        trips = rng.choice([None, 1, 2, _MOST_TRIPS])
        return [Loop(first=self._one(names), trips=trips, body=self._body([*names, "carried"], depth),
                     to=self._new(names))]

    def _body(self, names: Sequence[str], depth: int) -> Body:
        own = list(names)
        steps = self._steps(own, self._rng.randrange(1, 5), depth + 1)
        return Body(tuple(steps), own[-1])

    def _one(self, names: Sequence[str]) -> str:
        """One of the values; more often a late one."""
        return names[-1 - int(len(names) * self._rng.random() ** 2)]

    def _new(self, names: list[str]) -> str:
        self._count += 1
        names.append(f"a{self._count}")
        return names[-1]
