"""Random tensors of which rows are written somehow: whatever becomes a scatter in place gives the same values."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, run_kernel_ir
from tests.passes.test_update_in_place import scatters, written
from tests.support.tiers import each_commit
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.passes.update_in_place import update_in_place

B, F32 = p.B, DType.F32
SEEDS = range(60)


class Cache:
    """A tensor that is cut along its first axes, written to in parts, and put together again."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lead = [self.random.choice((1, 2, 3)) for _ in range(self.random.randint(1, 3))]
        self.length, self.width = 16, self.random.choice(((4,), (2, 3)))
        self.dims = (*self.lead, self.length, *self.width)
        self.input = B.input("i0", F32, self.dims)
        self.state = B.input("i1", F32, (1, *self.width))  # what rows are made of, and what is made of them
        self.at = [B.input(f"i{i + 2}", DType.I32, (1,)) for i in range(2)]

    def graph(self) -> TensorGraph:
        whole = self.part(self.input, 0)
        return TensorGraph("cache", [("o0", whole), ("o1", self.state)])

    def part(self, x: Node, axis: int) -> Node:
        """`x`, all of it from `axis` on, after some writes."""
        if axis < len(self.lead) and self.random.random() < 0.8:
            parts = []
            for i in range(x.type.dims[axis]):
                begin = [i if a == axis else 0 for a in range(x.type.rank)]
                sizes = tuple(1 if a == axis else d for a, d in enumerate(x.type.dims))
                parts.append(self.part(B.slice(x, begin, [1] * x.type.rank, sizes), axis + 1))
            if self.random.random() < 0.05:
                self.random.shuffle(parts)
            return B.concat(parts, axis)
        if self.random.random() < 0.2:
            return x
        return self.after_a_write(x)

    def after_a_write(self, x: Node) -> Node:
        place = len(self.lead)
        seen = self.random.random()
        shape = (*x.type.dims[:place], 1, *self.width)
        row = B.mul(B.broadcast(self.state, shape), B.broadcast(B.scalar_like(self.random.random(), x), shape))
        unit = tuple(d for a, d in enumerate(x.type.dims) if a >= place or d != 1 or self.random.random() < 0.5)
        old, axis = B.reshape(x, unit), len(unit) - len(self.width) - 1
        row = B.reshape(row, tuple(1 if a == axis else d for a, d in enumerate(unit)))
        new = written(old, row, self.random.choice(self.at), axis)
        if seen < 0.7:  # the next rows come of this one; of what was there before, once in a while
            read = x if seen < 0.05 else B.reshape(new, x.type.dims)
            means = B.sum(read, list(range(place + 1)), keepdims=True)
            self.state = B.op(p.OpKind.TANH, B.add(self.state, B.reshape(means, (1, *self.width))))
        return B.reshape(new, x.type.dims)


def case(seed: int) -> tuple[TensorGraph, TensorGraph]:
    before = Cache(seed).graph()
    return before, update_in_place(before, "i0", "o0", 0)


@pytest.mark.parametrize("seed", each_commit(SEEDS[:20], SEEDS))
def test_values_are_the_same(seed: int) -> None:
    before, after = case(seed)
    values = random_values(before, seed) | {f"i{i}": np.array([at], np.int32) for i, at in ((2, seed % 16), (3, 9))}
    values = {key: value for key, value in values.items() if key in {n.attrs.key for n in before.inputs()}}
    wanted = interpret(before, values)
    for key, value in interpret(after, values).items():
        np.testing.assert_array_equal(value, wanted[key])
    if after is not before:
        for device in (CPU, H200):
            got = run_kernel_ir(after, compiled(after, device), values)
            compare(after, got, *reference(after, values), device.name)


def test_many_become_scatters_in_place() -> None:
    found: Counter[str] = Counter()
    for seed in SEEDS:
        before, after = case(seed)
        found["left" if after is before else "scattered"] += 1
        if after is not before:
            found["in place"] += bool(compiled(after, CPU).executable.updated)
            assert scatters(after)
    assert found["scattered"] >= len(SEEDS) // 3
    assert found["in place"] >= found["scattered"] * 0.9
