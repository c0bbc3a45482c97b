"""The fastest partition of a block's threads is found by timing, and timed against launches apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tests.compiler.test_thread_partitions import columns, elements, short_rows
from tf_stitch.compiler.partition_search import MOST_TIMED, measure_fusion, partitions_to_time
from tf_stitch.compiler.template_tuner import BATCH, ROUNDS
from tf_stitch.compiler.thread_partitions import Kernels, partitions
from tf_stitch.device.spec import H200
from tf_stitch.errors import BuildError
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.planning.measured_fusions import MeasuredFusion


class Times:
    """Microseconds: ten of each launch, and of a partition as told. Those of some blocks break their batch."""

    def __init__(self, together: Callable[[Program], float], broken: int = 0) -> None:
        self.together, self.broken, self.batches = together, broken, list[int]()

    def __call__(self, programs: Sequence[Program]) -> list[float]:
        self.batches.append(len(programs))
        if any(program.threads == self.broken for program in programs):
            raise BuildError("too many registers")
        return [self.together(program) for program in programs]

    def apart(self, programs: Sequence[Program]) -> float:
        return 10.0 * len(programs)


def pair() -> Kernels:
    return elements(), short_rows()


def record_of(kernels: Kernels, times: Times) -> MeasuredFusion:
    found = measure_fusion(kernels, H200, times, times.apart)
    assert found is not None
    return found


def test_each_partition_is_timed_without_and_with_a_bound_on_registers() -> None:
    tried = partitions_to_time(pair(), H200)
    free = [partition for partition in tried if not partition.resident]
    assert len(free) == MOST_TIMED < len(list(partitions(pair(), H200)))
    assert len({partition.threads for partition in free}) == MOST_TIMED
    for number, partition in enumerate(tried):
        if partition.resident:
            assert partition.threads == tried[number - 1].threads
            assert not tried[number - 1].resident
    assert len(tried) > len(free)


def test_the_fastest_partition_is_found() -> None:
    best = partitions_to_time(pair(), H200)[-1]
    times = Times(lambda program: 12.0 if program == best.program else 19.0)
    found = record_of(pair(), times)
    assert (found.threads, found.resident) == (best.threads, best.resident)
    assert (found.apart_us, found.together_us, found.saved_us) == (20.0, 12.0, 8.0)
    assert found.is_faster
    assert found.tried == len(partitions_to_time(pair(), H200))
    assert max(times.batches) == BATCH
    assert times.batches[-ROUNDS:] == [1] * ROUNDS


def test_three_kernels_are_timed_like_two() -> None:
    kernels = (*pair(), columns())
    best = partitions_to_time(kernels, H200)[3]
    found = record_of(kernels, Times(lambda program: 12.0 if program == best.program else 19.0))
    assert found.threads == best.threads
    assert len(found.kernels) == len(found.threads) == 3
    assert found.apart_us == 30.0
    assert found.text == f"30.0 us in 3 launches, 12.0 us in blocks of {' + '.join(map(str, best.threads))} threads"


def test_what_cannot_be_built_is_left_out() -> None:
    tried = partitions_to_time(pair(), H200)
    widest = max(sum(partition.threads) for partition in tried)
    found = record_of(pair(), Times(lambda program: 12.0, broken=widest))
    assert sum(found.threads) < widest
    assert found.tried == sum(sum(partition.threads) != widest for partition in tried)


def test_what_cannot_be_timed_is_not_known() -> None:
    times = Times(lambda program: math.nan)
    assert measure_fusion(pair(), H200, times, times.apart) is None
    times = Times(lambda program: 1.0)
    assert measure_fusion(pair(), H200, times, lambda programs: math.nan) is None


def test_time_may_run_out() -> None:
    times = Times(lambda program: 1.0)
    answers = iter([True, False])
    assert measure_fusion(pair(), H200, times, times.apart, lambda: next(answers)) is None
    assert times.batches == [BATCH], "asked between batches"
