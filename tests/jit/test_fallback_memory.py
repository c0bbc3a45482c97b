"""What TensorFlow's own ops of a region take, and whether they may run before its kernels are there."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tf_stitch.config import StitchConfig
from tf_stitch.errors import BindError, BuildPending, SourceLoc
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.jit.build_budget import BuildBudget
from tf_stitch.jit.build_key import Key
from tf_stitch.jit.fallback_memory import MOST_ESTIMATES, NEGLIGIBLE, FallbackMemory, fallback_bytes, kernel_bytes
from tf_stitch.jit.region_builder import CPU_ORDINAL, RegionBuilder
from tf_stitch.jit.region_registry import RegionRegistry
from tf_stitch.native.bindings import DeviceMemory
from tf_stitch.placement.executable import Executable
from tf_stitch.report.dump import Dump
from tf_stitch.report.report import Report

MIB = 1 << 20
ROWS = 64 * MIB // 64 // 4
"""Of 64 floats: a value of 64 MiB."""
VALUE = 64 * MIB
KEY = Key(True, ((ROWS, 64),))
PLACE = (0, 0, KEY)


def at(name: str) -> Builder:
    return Builder(SourceLoc(name, name))


def graph(*outputs: Any) -> TensorGraph:
    return TensorGraph("region", [(f"o{i}", node) for i, node in enumerate(outputs)])


def chain(length: int) -> TensorGraph:
    """Elementwise ops one after the other, and a sum of all their results, the last first: all are alive at once."""
    x = at("x").input("i0", DType.F32, (ROWS, 64))
    values = [x]
    for i in range(length):
        values.append(at(f"exp{i}").exp(values[-1]))
    total = values[-1]
    for i, value in enumerate(reversed(values[1:-1])):
        total = at(f"add{i}").add(total, value)
    return graph(at("sum").sum(total, [0, 1]))


def test_an_elementwise_op_writes_over_an_operand_that_nobody_reads_later() -> None:
    x = at("x").input("i0", DType.F32, (ROWS, 64))
    y = at("exp").exp(x)
    for i in range(5):
        y = at(f"neg{i}").neg(y)
    assert fallback_bytes(graph(y)) == VALUE


def test_values_are_alive_until_they_are_read_last() -> None:
    assert fallback_bytes(chain(1)) == VALUE + 4
    assert fallback_bytes(chain(5)) == 5 * VALUE


def test_results_stay_and_sums_do_not_write_over_operands() -> None:
    x = at("x").input("i0", DType.F32, (ROWS, 64))
    y = at("exp").exp(x)
    assert fallback_bytes(graph(y, at("neg").neg(y))) == 2 * VALUE
    assert fallback_bytes(graph(at("transpose").transpose(y, [1, 0]))) == 2 * VALUE


def test_what_one_of_the_users_nodes_computes_within_is_not_in_memory() -> None:
    """A mean is a sum and a division, a softmax seven ops."""
    x = at("x").input("i0", DType.F32, (ROWS, 64))
    own = at("softmax")
    exps = own.exp(own.sub(x, own.broadcast(own.reduce(OpKind.MAX, x, [1], keepdims=True), (ROWS, 64))))
    assert fallback_bytes(graph(own.div(exps, own.broadcast(own.sum(exps, [1], keepdims=True), (ROWS, 64))))) == VALUE


def test_views_and_constants_take_nothing() -> None:
    x = at("x").input("i0", DType.F32, (ROWS, 64))
    y = at("exp").exp(x)
    view = at("reshape").reshape(y, (ROWS * 64,))
    assert fallback_bytes(graph(at("sum").sum(view, [0]))) == VALUE + 4


OWN = fallback_bytes(chain(8))


@pytest.fixture
def memory() -> FallbackMemory:
    return FallbackMemory(lambda number, key: chain(8))


def executable(arena: int) -> Executable:
    return Executable((), (), (), (), (arena,), (), None)


def test_where_memory_is_not_limited_nothing_waits(memory: FallbackMemory) -> None:
    memory.saw(0, DeviceMemory())
    assert memory.own(PLACE) == 0
    assert memory.why_not(PLACE) == ""
    assert not memory.has_to_wait(PLACE, Future())


@pytest.mark.parametrize(("arena", "free", "why"), [
    (OWN, 4 * OWN, ""),  # as much as the kernels
    (OWN - NEGLIGIBLE, 4 * OWN, ""),  # hardly more
    (OWN - NEGLIGIBLE - MIB, 4 * OWN, f"they would take {OWN // MIB:,} MiB, the kernels {OWN // MIB - 65:,} MiB"),
    (OWN, 2 * OWN, ""),
    (OWN, 2 * OWN - 2 * MIB, f"they would take {OWN // MIB:,} MiB, of {2 * OWN // MIB - 2:,} MiB that are free"),
])  # fmt: skip
def test_the_nodes_run_where_they_take_what_the_kernels_take_and_half_of_what_is_free(
        memory: FallbackMemory, arena: int, free: int, why: str) -> None:
    memory.saw(0, DeviceMemory(0, free))
    memory.planned(PLACE, executable(arena))
    assert memory.why_not(PLACE) == why


def test_a_twentieth_more_than_all_that_is_in_use(memory: FallbackMemory) -> None:
    in_use = 100 * OWN
    memory.saw(0, DeviceMemory(in_use, 2 * in_use))
    memory.planned(PLACE, executable(0))
    assert memory.why_not(PLACE) == ""


def test_a_call_waits_until_the_kernels_are_planned(memory: FallbackMemory) -> None:
    for arena, waits in ((OWN, False), (0, True)):
        memory.drop(0)
        memory.saw(0, DeviceMemory(0, 100 * OWN))
        threading.Timer(0.05, lambda arena=arena: memory.planned(PLACE, executable(arena))).start()
        assert memory.has_to_wait(PLACE, Future()) == waits


def test_nobody_is_told_of_a_wait_for_what_is_there(memory: FallbackMemory) -> None:
    build: Future[object] = Future()
    build.set_result(None)
    memory.saw(0, DeviceMemory(0, 100 * OWN))
    said: list[str] = []
    memory.wait(PLACE, build, BuildBudget(0.01, lambda: None), said.append)
    assert said == []


def test_a_call_waits_for_a_build_that_plans_nothing(memory: FallbackMemory) -> None:
    build: Future[object] = Future()
    memory.saw(0, DeviceMemory(0, 100 * OWN))
    threading.Timer(0.05, lambda: build.set_result(None)).start()
    assert memory.has_to_wait(PLACE, build)
    assert build.done()


def test_a_region_that_contradicts_its_shapes_is_its_builds_to_tell() -> None:
    def bound(number: int, key: Key) -> TensorGraph:
        raise BindError("sizes")

    memory = FallbackMemory(bound)
    memory.saw(0, DeviceMemory(0, 1))
    assert memory.own(PLACE) == 0


def test_a_size_for_each_word_is_not_worked_out() -> None:
    bound: list[Key] = []

    def chain_of(number: int, key: Key) -> TensorGraph:
        bound.append(key)
        return chain(len(bound))

    memory = FallbackMemory(chain_of)
    memory.saw(0, DeviceMemory(0, 1))
    sizes = [memory.own((0, 0, Key(True, ((rows, 64),)))) for rows in range(1, 30)]
    assert len(bound) == MOST_ESTIMATES
    assert sizes == sorted(sizes)
    assert set(sizes[MOST_ESTIMATES:]) == {sizes[MOST_ESTIMATES - 1]}
    assert memory.own((1, 0, KEY)) == fallback_bytes(chain(MOST_ESTIMATES + 1)), "of another region"


def test_outputs_count_with_the_arena() -> None:
    x = at("x").input("i0", DType.F32, (4, 64))
    assert kernel_bytes(Executable((), (), (x.type, x.type), (), (100, 28), (), None)) == 2 * 1024 + 128


@pytest.mark.parametrize(("free", "patience", "waits"), [
    (1 << 40, 60.0, True),  # the nodes would fit
    (1 << 40, 0.01, False),
    (1, 0.01, True),
    (0, 60.0, False),  # memory is not limited
])  # fmt: skip
def test_a_step_whose_nodes_take_more_than_its_kernels_waits_for_these(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, patience: float, waits: bool) -> None:
    """However little the graph's steps may wait: for some time where the nodes fit, else for as long as it takes."""
    registry = RegionRegistry(StitchConfig(cache_dir=tmp_path), Report(), Dump(None))
    number = registry.register(RegionGraph(chain(8), ("a", "b"), ("x:0",), (), {"b:0": 0}))
    compiled, begun = RegionBuilder._compile, threading.Event()

    def slow(self: RegionBuilder, *arguments: Any) -> Any:
        begun.wait(0.3)
        return compiled(self, *arguments)

    monkeypatch.setattr(RegionBuilder, "_compile", slow)
    monkeypatch.setattr(registry.memory, "_patience", patience)
    registry.memory.saw(CPU_ORDINAL, DeviceMemory(0, free))
    budget = BuildBudget(0.01, lambda: None)
    if waits:
        assert registry.build_later(number, CPU_ORDINAL, KEY, budget).executable.steps
    else:
        with pytest.raises(BuildPending):
            registry.build_later(number, CPU_ORDINAL, KEY, budget)
    begun.set()
    registry.finish_builds(60)
