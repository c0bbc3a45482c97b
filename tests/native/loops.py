"""Loops for StitchWhile as data, what they compute, and how a test runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.native.conftest import Regions

Array: TypeAlias = NDArray[Any]
Words: TypeAlias = Callable[[tuple[int, ...]], Sequence[int] | None]
Role: TypeAlias = tuple[int, ...]


def fixed(a: int) -> Role:
    return 0, a


def carried(a: int, j: int) -> Role:
    return 1, a, j


def element(a: int, way: int = 0) -> Role:
    """`way`: 0 row i, 1 from the last row on, 2 + k: input k of the body is the row's number."""
    return 2, a, way


def last(a: int, j: int) -> Role:
    return 0, a, j


def stack(j: int, a: int = -1, way: int = 0) -> Role:
    return 1, j, a, way


def overlay(j: int, a: int, way: int = 0) -> Role:
    """In the place of rows of input a."""
    return 2, j, a, way


@dataclass(frozen=True)
class Loop:
    """Roles of the body's inputs, the condition's inputs and the op's outputs."""

    body: tuple[Role, ...]
    condition: tuple[Role, ...]
    outputs: tuple[Role, ...]

    def encode(self) -> list[int]:
        words = []
        for roles in (self.body, self.condition, self.outputs):
            words += [len(roles), *(word for role in roles for word in role)]
        return words


@dataclass(frozen=True)
class Beside:
    """What the host has of a loop that is split. Its body numbers rows; with `decides` the condition reads its results,
    too. It has no outputs."""

    loop: Loop = Loop((), (), ())
    inputs: Sequence[Any] = ()
    body: Callable[..., Sequence[Array]] = lambda *values: ()
    decides: bool = False


def expected(loop: Loop, inputs: Sequence[Array], body: Callable[..., Sequence[Array]],
             condition: Callable[..., bool], beside: Beside | None = None) -> list[Array]:
    """What the op is to give, by its definition."""
    run = _Run(loop, inputs, inputs if beside is None else beside.inputs)
    host = run if beside is None else _Run(beside.loop, beside.inputs, ())
    deciding = host if beside is not None and beside.decides else run
    while condition(*deciding.values(deciding.loop.condition)):
        numbers = None if beside is None else host.values(host.loop.body)
        values = run.values(loop.body, numbers)
        run.keep(values if numbers is None else numbers, body(*values))
        if beside is not None and numbers is not None:
            host.keep(numbers, beside.body(*numbers))
    like = [np.zeros_like(inputs[r[1]], shape=inputs[r[1]].shape[r[0] == 2:]) for r in loop.body]
    return [run.output(i, body(*like)) for i in range(len(loop.outputs))]


class _Run:
    """One run of a body, by the definition of roles.

    Attributes:
        counts: inputs that say how many rows there are.
        results: of the body, of each iteration.
        rows: for each output the rows that iterations gave, by number.
    """

    def __init__(self, loop: Loop, inputs: Sequence[Array], counts: Sequence[Array]) -> None:
        self.loop, self.inputs, self.counts = loop, inputs, counts
        self.results: list[Sequence[Array]] = []
        self.rows: list[dict[int, Array]] = [{} for _ in loop.outputs]

    def values(self, roles: Sequence[Role], numbers: Sequence[Array] | None = None) -> list[Array]:
        """Of the inputs with these roles in the next iteration; those that number rows, if not `numbers` do, are known
        first."""
        found: dict[int, Array] = {}
        for k in sorted(range(len(roles)), key=lambda k: roles[k][0] == 2 and roles[k][2] >= 2):
            found[k] = self._value(roles[k], found if numbers is None else dict(enumerate(numbers)))
        return [found[k] for k in range(len(roles))]

    def _value(self, role: Role, numbers: Mapping[int, Array]) -> Array:
        if role[0] == 2:
            return self.inputs[role[1]][self._row(role[2], len(self.inputs[role[1]]), numbers)]
        return self.results[-1][role[2]] if role[0] == 1 and self.results else self.inputs[role[1]]

    def _row(self, way: int, count: int, numbers: Mapping[int, Array]) -> int:
        i = len(self.results)
        return int(numbers[way - 2]) if way >= 2 else count - 1 - i if way else i

    def keep(self, values: Sequence[Array], results: Sequence[Array]) -> None:
        """Of one iteration: inputs of the body that numbers rows, results of this one."""
        for rows, role in zip(self.rows, self.loop.outputs, strict=True):
            if role[0]:
                kind, j, a, way = role
                count = -1 if a < 0 else self._count(kind, a)
                # Rows of a stack that grows are turned round in the end.
                rows[self._row(way if a >= 0 else 0, count, dict(enumerate(values)))] = results[j]
        self.results.append(results)

    def _count(self, kind: int, a: int) -> int:
        return int(self.counts[a]) if kind == 1 else len(self.inputs[a])

    def output(self, number: int, like: Sequence[Array]) -> Array:
        """`like`: results of the body, of any values."""
        role, n = self.loop.outputs[number], len(self.results)
        if role[0] == 0:
            return self.results[-1][role[2]] if n else self.inputs[role[1]]
        kind, j, a, way = role
        stack = self.inputs[a].copy() if kind == 2 else np.zeros_like(
            like[j], shape=(n if a < 0 else self._count(kind, a), *np.shape(like[j])))
        for row, value in self.rows[number].items():
            stack[row] = value
        return stack[::-1] if a < 0 and way == 1 else stack


@dataclass(frozen=True)
class HostRegion:
    """The body that the host has of a loop that is split: its roles, and the condition's if that `decides` here; the
    words that are built for it, and the types of its results; `check`: the one that says whether an iteration may run,
    -1: none does."""

    roles: Loop
    words: Words
    results: Sequence[Any]
    decides: bool = True
    check: int = -1


class LoopRegions:
    """A loop whose condition and body are regions of `regions`; `results` are types of the body's. It is split if it
    has inputs for the host."""

    def __init__(self, regions: Regions, roles: Loop, results: Sequence[Any], condition: Words, body: Words,
                 host: HostRegion | None = None, **whole: Any) -> None:
        self.regions, self.roles, self.results, self.host = regions, roles, results, host
        self.condition, self.body = regions.add(condition), regions.add(body)
        self.beside = -1 if host is None else regions.add(host.words)
        self.region = regions.add(lambda key: None, **whole)

    def __call__(self, *inputs: Any, types: Sequence[Any], host_inputs: Sequence[Any] = ()) -> Any:
        beside = {} if self.host is None else {
            "host": self.beside, "host_roles": self.host.roles.encode(), "host_results": self.host.results,
            "condition_on_host": self.host.decides, "host_check": self.host.check}
        return self.regions.library.raw_ops.stitch_while(
            inputs=list(inputs), host_inputs=list(host_inputs), Tout=list(types), region=self.region, body=self.body,
            condition=self.condition, results=self.results, roles=self.roles.encode(), split=bool(host_inputs),
            output_shapes=[], **beside)

    def counts(self) -> dict[str, int]:
        library = self.regions.library
        return {"runs": library.region_runs(self.region), "iterations": library.region_runs(self.body),
                "fallbacks": library.region_fallbacks(self.region),
                "preferred_fallbacks": library.region_preferred_fallbacks(self.region)}

    def shadows(self) -> int:
        return self.regions.library.region_shadows(self.region)
