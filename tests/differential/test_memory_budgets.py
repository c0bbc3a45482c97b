"""Random steps there and back under random budgets: the same bits as without, in less memory."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.differential.patterns import softmax
from tests.differential.runner import (
    LIGHT,
    compare,
    compiled,
    random_values,
    reference,
    region,
    run_host,
    run_kernel_ir,
)
from tests.support.tiers import each_commit
from tf_stitch.compiler import memory_problem, pipeline
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.config import MemoryBudget
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.free_nodes import plannable
from tf_stitch.planning.plan_groups import plan_of
from tf_stitch.planning.planner import plan_region

B, F32 = Builder(), DType.F32
SEEDS = range(40)


class Step:
    """Values computed one from the other, and then gradients of a kind, which read them in reverse order."""

    def __init__(self, seed: int, rows: int, columns: int) -> None:
        self.random = random.Random(seed)
        self.dtype = self.random.choice((DType.F32, DType.F32, DType.BF16, DType.F16))
        self.shape = rows, columns
        self.updates: dict[str, Node] = {}
        self.variables: dict[str, Node] = {}
        self.weights = [B.input(f"w{i}:0", self.dtype, (columns, columns)) for i in range(2)]

    def variable(self, handle: str, dtype: DType, shape: tuple[int, ...]) -> Node:
        return self.variables.setdefault(handle, B.variable(handle, dtype, shape))

    def graph(self, length: int) -> TensorGraph:
        there = [B.input("x:0", self.dtype, self.shape)]
        for _ in range(length):
            there.append(self._next(there))
        back, results = there[-1], []
        for i, value in enumerate(reversed(there)):
            back = B.mul(B.op(OpKind.TANH, B.add(back, B.scalar_like(0.1 * i, back))), self._slope(value))
            if self.random.random() < 0.3:
                results.append(B.sum(B.mul(back, value), [0]))
            if self.random.random() < 0.3:
                back = B.sub(back, B.mean(back, [1], True))
        self._update(results)
        return region("step", [back, *results], self.updates)

    def _next(self, there: list[Node]) -> Node:
        layers: tuple[Callable[[Node], Node], ...] = (self._activated, self._normal, self._dropped, self._scaled,
                                                      softmax, self._mixed)
        made = self.random.choice(layers)(there[-1])
        return B.add(made, self.random.choice(there)) if self.random.random() < 0.4 else made

    def _activated(self, value: Node) -> Node:
        return B.mul(value, B.op(self.random.choice((OpKind.SIGMOID, OpKind.TANH)), value))

    def _normal(self, value: Node) -> Node:
        centred = B.sub(value, B.mean(value, [1], True))
        variance = B.add(B.mean(B.square(centred), [1], True), B.scalar_like(1e-2, value))
        return B.mul(centred, B.op(OpKind.RSQRT, variance))

    def _dropped(self, value: Node) -> Node:
        """By bits of a seed that is a variable, which the step counts on."""
        seed = self.variable("seed", DType.I64, (3,))
        words = [B.reshape(B.slice(seed, [i], [1], (1,)), ()) for i in range(3)]
        self.updates["seed"] = B.add(seed, B.constant(np.array([1, 0, 0]), DType.I64))
        bits = B.op(OpKind.RANDOM_BITS, B.positions(self.shape, DType.I64), *words)
        coin = B.op(OpKind.GREATER, B.cast(bits, F32), B.constant(2.0 ** 31, F32))
        return B.select(coin, value, B.scalar_like(0, value))

    def _scaled(self, value: Node) -> Node:
        return B.mul(value, self.variable(f"v{len(self.variables)}", self.dtype, self.shape[1:]))

    def _mixed(self, value: Node) -> Node:
        """By a small matrix."""
        return B.op(OpKind.TANH, B.dot(value, self.random.choice(self.weights)))

    def _slope(self, value: Node) -> Node:
        return B.sub(B.scalar_like(1, value), B.square(B.op(OpKind.TANH, value)))

    def _update(self, results: list[Node]) -> None:
        """New values of variables that are written over."""
        for handle, old in self.variables.items():
            if results and handle != "seed" and self.random.random() < 0.7:
                self.updates[handle] = B.sub(old, B.mul(results[0], B.scalar_like(0.1, old)))


def case(seed: int, rows: int = 40, columns: int = 24, length: int = 8) -> tuple[TensorGraph, MemoryBudget]:
    budget = random.Random(seed).choice((0.8, 0.6, 0.4, 0.0))
    return Step(seed, rows, columns).graph(length), MemoryBudget(budget)


@pytest.fixture(params=["fused", "apart"])
def plans(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans as they are; and a kernel for each node, which hand more to each other."""
    monkeypatch.setattr(memory_problem, "WORTH_WAITING", 0)
    if request.param == "apart":
        def apart(graph, compiler, libraries, options):  # type: ignore[no-untyped-def]
            free = plan_region(graph, compiler, libraries, options).free
            work = set(plannable(graph, free))
            return plan_of(graph, [[i] for i, node in enumerate(graph.nodes()) if node in work], None, libraries)

        monkeypatch.setattr(pipeline, "plan_region", apart)


def assert_within(before: CompiledRegion, after: CompiledRegion) -> None:
    assert after.buffers.live_bytes <= before.buffers.live_bytes


@pytest.mark.parametrize("seed", each_commit(range(5), SEEDS))
def test_steps_of_a_cpu_have_the_same_bits(plans: None, seed: int) -> None:
    graph, budget = case(seed)
    values = random_values(graph, seed)
    before, after = compiled(graph, CPU), compiled(graph, CPU, memory=budget)
    assert_within(before, after)
    want = run_host(graph, before, values, LIGHT)
    compare(graph, want, *reference(graph, values), "without a budget")
    got = run_host(graph, after, values, LIGHT)
    for key in want:
        np.testing.assert_array_equal(got[key], want[key], err_msg=key)


@pytest.mark.parametrize("seed", each_commit(range(2), SEEDS))
def test_steps_of_a_gpu_have_the_same_bits(plans: None, seed: int) -> None:
    graph, budget = case(seed, rows=12, columns=8, length=6)
    values = random_values(graph, seed)
    before, after = compiled(graph, H200, barriers=False), compiled(graph, H200, barriers=False, memory=budget)
    assert_within(before, after)
    want, got = run_kernel_ir(graph, before, values), run_kernel_ir(graph, after, values)
    for key in want:
        np.testing.assert_array_equal(got[key], want[key], err_msg=key)


def test_budgets_make_most_steps_smaller(plans: None) -> None:
    """Or the tests above would say little."""
    smaller = 0
    for seed in range(4):
        graph, _ = case(seed)
        before, after = compiled(graph, CPU), compiled(graph, CPU, memory=MemoryBudget(0.0))
        smaller += after.buffers.live_bytes <= 0.9 * before.buffers.live_bytes
    assert smaller >= 2
