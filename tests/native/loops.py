"""Loops for StitchWhile as data, what they compute, and how a test runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    return 2, a, way


def last(a: int, j: int) -> Role:
    return 0, a, j


def stack(j: int, a: int = -1, way: int = 0) -> Role:
    return 1, j, a, way


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


def expected(loop: Loop, inputs: Sequence[Array], body: Callable[..., Sequence[Array]],
             condition: Callable[..., bool]) -> list[Array]:
    """What the op is to give, by its definition."""
    results: list[Sequence[Array]] = []

    def value(role: Role) -> Array:
        if role[0] == 0 or (role[0] == 1 and not results):
            return inputs[role[1]]
        if role[0] == 1:
            return results[-1][role[2]]
        rows = inputs[role[1]]
        return rows[len(rows) - 1 - len(results) if role[2] else len(results)]

    while condition(*map(value, loop.condition)):
        results.append(body(*map(value, loop.body)))
    return [_output(role, inputs, results, body, loop) for role in loop.outputs]


def _output(role: Role, inputs: Sequence[Array], results: Sequence[Sequence[Array]], body: Callable[..., Any],
            loop: Loop) -> Array:
    if role[0] == 0:
        return results[-1][role[2]] if results else inputs[role[1]]
    _, j, a, way = role
    like = [np.zeros_like(inputs[r[1]], shape=inputs[r[1]].shape[r[0] == 2:]) for r in loop.body]
    row = results[0][j] if results else body(*like)[j]
    count = len(results) if a < 0 else int(inputs[a])
    rows = np.zeros((count, *np.shape(row)), np.asarray(row).dtype)
    for i, result in enumerate(results):
        rows[count - 1 - i if way else i] = result[j]
    return rows


class LoopRegions:
    """A loop whose condition and body are regions of `regions`."""

    def __init__(self, regions: Regions, roles: Loop, condition: Words, body: Words, **whole: Any) -> None:
        self.regions, self.roles = regions, roles
        self.condition, self.body = regions.add(condition), regions.add(body)
        self.region = regions.add(lambda key: None, **whole)

    def __call__(self, *inputs: Any, types: Sequence[Any]) -> Any:
        return self.regions.library.raw_ops.stitch_while(
            inputs=list(inputs), Tout=list(types), region=self.region, body=self.body, condition=self.condition,
            roles=self.roles.encode(), output_shapes=[])

    def counts(self) -> dict[str, int]:
        library = self.regions.library
        return {"runs": library.region_runs(self.region), "iterations": library.region_runs(self.body),
                "fallbacks": library.region_fallbacks(self.region),
                "originals": library.region_originals(self.region)}
