"""Kernels share blocks where that was measured to be faster, and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import Values, keys_of, random_values, region, run_kernel_ir
from tests.support.cuda_on_cpu import ADVERSARIES, run_on_cpu
from tf_stitch.compiler.horizontal_fusion import (
    Pair,
    fusion_key,
    measure_pair,
    pair_of,
    partitions,
    proposals,
)
from tf_stitch.compiler.packing import pack
from tf_stitch.compiler.pipeline import CompiledRegion, CompileOptions, compile_region
from tf_stitch.compiler.program_times import ProgramTimer
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import BuildError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.jit.tuner import Job, Tuner, pairs_to_measure
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.planning.measured_cost import MeasuredTimes
from tf_stitch.planning.measured_fusions import MeasuredFusion, MeasuredFusions
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.runtime.executable import DeviceLaunch
from tf_stitch.runtime.kernel_cache import KernelCache

B, F32 = p.B, DType.F32


@pytest.fixture(autouse=True)
def small_kernels_stand_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones take long here."""
    monkeypatch.setattr("tf_stitch.compiler.packing.LARGE", 256)


def two_kernels() -> TensorGraph:
    x, y = B.input("x:0", F32, (9, 700)), B.input("y:0", F32, (3000,))
    return region("two", [p.softmax(x), B.op(OpKind.TANH, y)])


def in_sequence() -> TensorGraph:
    x = B.input("x:0", F32, (9, 700))
    return region("sequence", [B.transpose(B.sum(p.softmax(x), [0], True), [1, 0]), p.softmax(B.transpose(x, [1, 0]))])


def built(graph: TensorGraph, device: DeviceSpec = H200, fusions: MeasuredFusions | None = None) -> CompiledRegion:
    return compile_region(graph, *keys_of(graph), CompileOptions(device, fusions=fusions))


def pairs(region: CompiledRegion, device: DeviceSpec = H200) -> list[Pair]:
    works, rounds = region.buffers.kernels, region.buffers.rounds
    return [pair_of(works, numbers) for _, numbers in proposals(works, rounds, pack(works, rounds, False), device)]


def launches(region: CompiledRegion) -> list[DeviceLaunch]:
    return [step for step in region.executable.steps if isinstance(step, DeviceLaunch)]


class Times:
    """Microseconds: ten of each launch, and of a partition as told."""

    def __init__(self, together: Callable[[Program], float], broken: int = 0) -> None:
        self.together, self.broken, self.timed = together, broken, list[Program]()

    def __call__(self, programs: Sequence[Program]) -> list[float]:
        self.timed += programs
        if programs[0].threads == self.broken:
            raise BuildError("too many registers")
        return [self.together(program) for program in programs]

    def apart(self, programs: Sequence[Program]) -> float:
        return 10.0 * len(programs)


def record_of(pair: Pair, times: Times) -> MeasuredFusion:
    found = measure_pair(pair, H200, times, times.apart)
    assert found is not None
    return found


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
    monkeypatch.setattr("tf_stitch.compiler.packing.LARGE", 1 << 20)
    assert len(launches(built(graph))) == 1
    assert pairs(built(graph)) == []


def test_kernels_that_wait_for_each_other_are_not() -> None:
    region = built(in_sequence())
    rounds = dict(zip(map(id, region.buffers.kernels), region.buffers.rounds, strict=True))
    assert all(rounds[id(one)] == rounds[id(two)] for one, two in pairs(region))


def test_partitions() -> None:
    (pair,) = pairs(built(two_kernels()))
    found = list(partitions(pair, H200))
    assert len({partition.threads for partition in found}) > 1
    for partition in found:
        assert sum(partition.threads) <= 1024
        assert not any(threads % 128 for threads in partition.threads)
        assert partition.program.resident == partition.resident
        verify_program(partition.program)
    assert {bool(partition.resident) for partition in found} == {False, True}


def test_the_fastest_partition_is_found() -> None:
    (pair,) = pairs(built(two_kernels()))
    best = list(partitions(pair, H200))[-1]
    times = Times(lambda program: 12.0 if program == best.program else 19.0)
    found = record_of(pair, times)
    assert (found.threads, found.resident) == (best.threads, best.resident)
    assert (found.apart_us, found.together_us) == (20.0, 12.0)
    assert found.is_faster
    assert found.tried == len(list(partitions(pair, H200)))


def test_what_cannot_be_built_is_left_out() -> None:
    (pair,) = pairs(built(two_kernels()))
    widest = max(sum(partition.threads) for partition in partitions(pair, H200))
    found = record_of(pair, Times(lambda program: 12.0, broken=widest))
    assert sum(found.threads) < widest
    assert measure_pair(pair, H200, Times(lambda program: float("nan")), Times(lambda program: 1.0).apart) is None
    assert measure_pair(pair, H200, Times(lambda program: 1.0), Times(lambda p: 1.0).apart, lambda: False) is None


def fusions(folder: Path, graph: TensorGraph, together: float, threads: tuple[int, int] | None = None
            ) -> MeasuredFusions:
    """Records of the graph's pair: of some microseconds, in the first or a given partition."""
    (pair,) = pairs(built(graph))
    found = record_of(pair, Times(lambda program: together))
    made = MeasuredFusions(folder / f"{together}.json")
    made.add({fusion_key(pair, True): replace(found, threads=threads or found.threads)})
    return made


@pytest.mark.parametrize("number", [0, -1])
def test_results_are_those_of_two_launches(tmp_path: Path, number: int) -> None:
    graph = two_kernels()
    (pair,) = pairs(built(graph))
    chosen = list(partitions(pair, H200))[number]
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
    (pair,) = pairs(built(graph))
    key = fusion_key(pair, True)
    record = known.get(key)
    assert record is not None
    known.add({key: replace(record, kernels=("b_1", "b_1"))})
    assert len(launches(built(graph, fusions=known))) == 2
    known.add({key: replace(record, threads=(32, 32))})
    assert len(launches(built(graph, fusions=known))) == 2, "no such partition"


def test_records_are_kept(tmp_path: Path) -> None:
    known = fusions(tmp_path, two_kernels(), 12.0)
    (pair,) = pairs(built(two_kernels()))
    again = MeasuredFusions(tmp_path / "12.0.json")
    assert again.problem is None
    assert again.get(fusion_key(pair, True)) == known.get(fusion_key(pair, True))
    for wrong in ({"kernels": ["a"]}, {"threads": [1]}, {"threads": ["a", "b"]}, {"together_us": -1.0}):
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
    ((_, pair),) = pairs_to_measure(compiled.buffers, job)
    said: list[str] = []
    tuner = Tuner(60, KernelCache(tmp_path / "kernels"), pytest.fail, lambda tuning, seconds: None,
                  lambda names, record: said.append(record.text))
    tuner.add(job)
    for _ in range(600):
        if said:
            break
        time.sleep(0.02)
    tuner.close()
    assert said == [f"20.0 us in two launches, 12.0 us in blocks of {pair[0].program.threads} + "
                    f"{pair[1].program.threads} threads"]
    assert pairs_to_measure(compiled.buffers, job) == [], "once is enough"
    found = MeasuredFusions(tmp_path / "fusions.json").get(fusion_key(pair, True))
    assert found is not None
    assert found.is_faster
    assert len(launches(built(two_kernels(), fusions=known))) == 1
