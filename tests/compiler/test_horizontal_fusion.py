"""Kernels share blocks where that was measured to be faster, and nowhere else."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.test_partition_search import Times, record_of
from tests.differential import patterns as p
from tests.differential.runner import Values, keys_of, random_values, region, run_kernel_ir
from tests.support.cuda_on_cpu import ADVERSARIES, run_on_cpu
from tests.support.numbers import set_numbers
from tf_stitch.compiler.horizontal_fusion import MOST_KERNELS, Launches, fused_launches, proposals
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.packing import pack
from tf_stitch.compiler.partition_search import partitions_to_time
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.program_times import ProgramTimer
from tf_stitch.compiler.thread_partitions import Kernels
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.jit.tuner import Job, Tuner
from tf_stitch.placement.executable import DeviceLaunch
from tf_stitch.planning.greedy_solver import solve_greedily
from tf_stitch.planning.measured_cost import MeasuredTimes
from tf_stitch.planning.measured_fusions import MeasuredFusion, MeasuredFusions
from tf_stitch.planning.selection import Selection
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.runtime.kernel_cache import KernelCache

B, F32 = p.B, DType.F32


@pytest.fixture(autouse=True)
def small_kernels_stand_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones take long here."""
    set_numbers(monkeypatch, H200, "sizes", packed_elements=256)


def two_kernels() -> TensorGraph:
    x, y = B.input("x:0", F32, (9, 700)), B.input("y:0", F32, (3000,))
    return region("two", [p.softmax(x), B.op(OpKind.TANH, y)])


def in_sequence() -> TensorGraph:
    x = B.input("x:0", F32, (9, 700))
    return region("sequence", [B.transpose(B.sum(p.softmax(x), [0], True), [1, 0]), p.softmax(B.transpose(x, [1, 0]))])


def built(graph: TensorGraph, device: DeviceSpec = H200, fusions: MeasuredFusions | None = None) -> CompiledRegion:
    return compile_region(graph, *keys_of(graph), CompileOptions(device, fusions=fusions))


def separate(region: CompiledRegion, device: DeviceSpec = H200) -> Launches:
    works, levels = region.buffers.kernels, region.buffers.levels
    return Launches(works, levels, pack(works, levels, False, device), device)


def pairs(region: CompiledRegion, device: DeviceSpec = H200) -> list[Kernels]:
    found = separate(region, device)
    return [found.kernels(numbers) for _, numbers in proposals(found)]


def launches(region: CompiledRegion) -> list[DeviceLaunch]:
    return [step for step in region.executable.steps if isinstance(step, DeviceLaunch)]


def test_independent_launches_are_proposed() -> None:
    region = built(two_kernels())
    (pair,) = pairs(region)
    assert [kernel.program.title for kernel in pair] == [kernel.program.title for kernel in region.kernels]
    one_barrier = replace(H200, block_barriers=1)
    assert pairs(built(two_kernels(), one_barrier), one_barrier) == []
    assert pairs(built(two_kernels(), CPU), CPU) == []


def test_kernels_that_share_a_launch_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = B.input("x:0", F32, (3000,)), B.input("y:0", F32, (2000,))
    graph = region("alike", [B.op(OpKind.EXP, x), B.op(OpKind.TANH, y)])
    assert len(launches(built(graph))) == 2
    assert len(pairs(built(graph))) == 1
    set_numbers(monkeypatch, H200, "sizes", packed_elements=1 << 20)
    assert len(launches(built(graph))) == 1
    assert pairs(built(graph)) == []


def test_kernels_that_wait_for_each_other_are_not() -> None:
    region = built(in_sequence())
    levels = dict(zip(map(id, region.buffers.kernels), region.buffers.levels, strict=True))
    assert all(levels[id(one)] == levels[id(two)] for one, two in pairs(region))


def fusions(folder: Path, graph: TensorGraph, together: float, threads: tuple[int, int] | None = None
            ) -> MeasuredFusions:
    """Records of the graph's pair: of some microseconds, in the first or a given partition."""
    alone = separate(built(graph))
    ((_, numbers),) = proposals(alone)
    found = record_of(alone.kernels(numbers), Times(lambda program: together))
    made = MeasuredFusions(folder / f"{together}.json")
    made.add({alone.key(numbers): replace(found, threads=threads or found.threads)})
    return made


def key_of(graph: TensorGraph) -> str:
    """Of the graph's pair."""
    alone = separate(built(graph))
    ((_, numbers),) = proposals(alone)
    return alone.key(numbers)


@pytest.mark.parametrize("number", [0, -1])
def test_results_are_those_of_two_launches(tmp_path: Path, number: int) -> None:
    graph = two_kernels()
    (pair,) = pairs(built(graph))
    chosen = partitions_to_time(pair, H200)[number]
    values, apart = random_values(graph), built(graph)
    together = built(graph, fusions=fusions(tmp_path, graph, 12.0, chosen.threads))
    assert len(launches(apart)) == 2
    (launch,) = launches(together)
    assert launch.threads == sum(chosen.threads)
    assert launch.grid == max(kernel.program.grid for kernel in chosen.kernels)
    assert set(together.launches) == {launch.symbol}
    for adversary in ADVERSARIES:
        assert same(run_on_cpu(graph, together, values, adversary), run_on_cpu(graph, apart, values, adversary))
    if chosen.kernels == pair:  # other blocks add in another order
        assert same(run_kernel_ir(graph, together, values), run_kernel_ir(graph, apart, values))


def same(a: Values, b: Values) -> bool:
    return all(np.array_equal(a[key].view(np.uint8), b[key].view(np.uint8)) for key in b)


def test_nothing_is_fused_that_was_not_measured_faster(tmp_path: Path) -> None:
    graph = two_kernels()
    assert len(launches(built(graph))) == 2
    assert len(launches(built(graph, fusions=MeasuredFusions(tmp_path / "none.json")))) == 2
    assert len(launches(built(graph, fusions=fusions(tmp_path, graph, 19.9)))) == 2, "within noise"
    assert len(launches(built(graph, fusions=fusions(tmp_path, graph, 30.0)))) == 2
    assert len(launches(built(graph, fusions=fusions(tmp_path, graph, 12.0)))) == 1


def test_records_of_other_kernels_are_out_of_date(tmp_path: Path) -> None:
    graph = two_kernels()
    known = fusions(tmp_path, graph, 12.0)
    key = key_of(graph)
    record = known.get(key)
    assert record is not None
    known.add({key: replace(record, kernels=("b_1", "b_1"))})
    assert len(launches(built(graph, fusions=known))) == 2
    known.add({key: replace(record, threads=(32, 32))})
    assert len(launches(built(graph, fusions=known))) == 2, "no such partition"


def test_records_are_kept(tmp_path: Path) -> None:
    known = fusions(tmp_path, two_kernels(), 12.0)
    key = key_of(two_kernels())
    again = MeasuredFusions(tmp_path / "12.0.json")
    assert again.problem is None
    assert again.get(key) == known.get(key)
    for wrong in ({"kernels": ["a"]}, {"threads": [1]}, {"threads": ["a", "b"]}, {"threads": [128, 128, 128]},
                  {"together_us": -1.0}):
        value = {"kernels": ["a", "b"], "threads": [128, 128], "resident": 0, "apart_us": 2.0, "together_us": 1.0,
                 "tried": 1}
        with pytest.raises((TypeError, ValueError)):
            again.decode({**value, **wrong})


def test_pairs_are_measured_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = Times(lambda program: 12.0)
    monkeypatch.setattr(ProgramTimer, "__call__", lambda self, programs: times(programs))
    monkeypatch.setattr(ProgramTimer, "apart", lambda self, programs: times.apart(programs))
    compiled = built(two_kernels())
    known = MeasuredFusions(tmp_path / "fusions.json")
    job = Job(compiled.plan, H200, 0, True, MeasuredTimes(tmp_path / "t.json"), TunedTemplates(tmp_path / "u.json"),
              (), compiled.buffers, known)
    (pair,) = pairs(compiled)
    said: list[str] = []
    tuner = Tuner(60, KernelCache(tmp_path / "kernels"), pytest.fail, lambda tuning, seconds: None,
                  lambda names, record: said.append(record.text))
    tuner.add(job)
    for _ in range(600):
        if said:
            break
        time.sleep(0.02)
    tuner.close()
    first = partitions_to_time(pair, H200)[0].threads
    assert said == [f"20.0 us in 2 launches, 12.0 us in blocks of {first[0]} + {first[1]} threads"]
    assert proposals(separate(compiled), known) == [], "once is enough"
    found = MeasuredFusions(tmp_path / "fusions.json").get(key_of(two_kernels()))
    assert found is not None
    assert found.is_faster
    assert len(launches(built(two_kernels(), fusions=known))) == 1


def six_kernels() -> TensorGraph:
    """Of one level, and of six structures."""
    kinds = [OpKind.TANH, OpKind.EXP, OpKind.SQRT, OpKind.LOG, OpKind.ABS, OpKind.NEG]
    return region("six", [B.op(kind, B.input(f"x{i}:0", F32, (3000 + i,))) for i, kind in enumerate(kinds)])


def known_of(folder: Path, region: CompiledRegion, saved: dict[tuple[int, ...], float]) -> MeasuredFusions:
    """Records of sets of kernels, by what they save."""
    alone, made = separate(region), MeasuredFusions(folder / "known.json")
    for numbers, us in saved.items():
        made.add({alone.key(numbers): MeasuredFusion(alone.templates(numbers), (256,) * len(numbers), 0, 100.0,
                                                     100.0 - us, 32)})
    return made


def chosen(region: CompiledRegion, fusions: MeasuredFusions) -> set[tuple[int, ...]]:
    return set(fused_launches(separate(region), fusions))


def test_pairs_are_chosen_that_save_most_together(tmp_path: Path) -> None:
    """More than those that save most first, and than what comes of it by exchanging some."""
    region = built(six_kernels())
    assert separate(region).independent == [[0, 1, 2, 3, 4, 5]]
    saved: dict[tuple[int, ...], float] = {(0, 1): 10, (0, 3): 13, (1, 3): 2.5, (1, 4): 7, (2, 5): 2.5, (3, 4): 4,
                                           (3, 5): 13}
    greedy = solve_greedily(Selection(tuple(map(frozenset, saved)), tuple(saved.values()), 6, ()))
    assert greedy.objective == pytest.approx(22.5), "the example is too easy"
    assert chosen(region, known_of(tmp_path, region, saved)) == {(0, 1), (3, 5)}, "23 us"


def test_a_kernel_is_in_one_launch(tmp_path: Path) -> None:
    region = built(six_kernels())
    saved: dict[tuple[int, ...], float] = {(i, j): 10 + i + j for i in range(6) for j in range(i + 1, 6)}
    fusions = known_of(tmp_path, region, saved)
    together = built(six_kernels(), fusions=fusions)
    assert len(launches(together)) == 3
    assert sorted(i for numbers in chosen(region, fusions) for i in numbers) == list(range(6))


def test_three_kernels_share_blocks_where_that_saves_more(tmp_path: Path) -> None:
    graph = six_kernels()
    region = built(graph)
    saved: dict[tuple[int, ...], float] = {(0, 1): 10, (0, 1, 2): 12, (2, 3): 3}
    assert chosen(region, known_of(tmp_path, region, saved)) == {(0, 1), (2, 3)}, "13 us, not 12"
    saved[0, 1, 2] = 14
    fusions = known_of(tmp_path, region, saved)
    assert chosen(region, fusions) == {(0, 1, 2)}
    together = built(graph, fusions=fusions)
    assert [launch.threads for launch in launches(together)] == [768, 256, 256, 256]
    values = random_values(graph)
    for adversary in ADVERSARIES[:2]:
        assert same(run_on_cpu(graph, together, values, adversary), run_on_cpu(graph, region, values, adversary))
    assert same(run_kernel_ir(graph, together, values), run_kernel_ir(graph, region, values))


def test_a_kernel_more_is_proposed_beside_those_that_measured_faster(tmp_path: Path) -> None:
    region = built(six_kernels())
    alone = separate(region)
    assert {len(numbers) for _, numbers in proposals(alone)} == {2}
    slower = known_of(tmp_path, region, {(0, 1): -5})
    found = [numbers for _, numbers in proposals(alone, slower)]
    assert (0, 1) not in found
    assert {len(numbers) for numbers in found} == {2}
    faster = known_of(tmp_path, region, {(0, 1): 50})
    found = [numbers for _, numbers in proposals(alone, faster)]
    assert {numbers for numbers in found if len(numbers) > 2} == {(0, 1, i) for i in range(2, 6)}
    assert {numbers for _, numbers in proposals(alone, faster, (0, 1))} == {(0, 1, i) for i in range(2, 6)}
    full = known_of(tmp_path, region, {(0, 1): 50, (0, 1, 2): 60})
    assert max(len(numbers) for _, numbers in proposals(alone, full)) == MOST_KERNELS


def test_kernels_of_new_templates_are_measured_again(tmp_path: Path) -> None:
    region = built(two_kernels())
    alone, known = separate(region), known_of(tmp_path, region, {(0, 1): 50})
    assert proposals(alone, known) == []
    record = known.get(alone.key((0, 1)))
    assert record is not None
    known.add({alone.key((0, 1)): replace(record, kernels=("b_1", "b_1"))})
    assert [numbers for _, numbers in proposals(alone, known)] == [(0, 1)]
