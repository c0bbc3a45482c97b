"""Names of steps are asked for when a profiler is there, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.native.conftest import INPUT, OUTPUT, VARIABLE, Regions, executable, launch
from tests.native.loop_kernels import COUNT, KERNELS, Symbols, counting, less
from tests.native.loops import LoopRegions

FIRST, SECOND = "own/first:StitchKernel", "own/second:StitchKernel"
COPIES = """
int copy(const tfs_env* env, void* const* a) { memcpy(a[1], a[0], 32); return 0; }
int increment(const tfs_env* env, void* const* a) { float* x = a[0]; for (int i = 0; i < 8; i++) x[i] += 1; return 0; }
"""


@pytest.fixture(scope="module")
def kernel(compile_c: Callable[[str], Symbols]) -> Symbols:
    return compile_c(COPIES + KERNELS)


def profiled(folder: Path, run: Callable[[], object]) -> set[str]:
    """What a profiler calls the steps of a region that runs meanwhile."""
    tf.profiler.experimental.start(str(folder))
    run()
    tf.profiler.experimental.stop()
    planes = [plane for path in folder.rglob("*.xplane.pb")
              for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes]
    return {event.name for plane in planes for event in plane.event_metadata.values() if "Stitch" in event.name
            and event.name.startswith("own/")}


def copying(regions: Regions, kernel: Symbols) -> int:
    copy = launch(kernel("copy"), (INPUT, 0), (OUTPUT, 0))
    return regions.add(lambda key: executable([[8]], [copy, copy]))


def test_nobody_asks_without_a_profiler(regions: Regions, kernel: Symbols, tmp_path: Path) -> None:
    """One that is there later sees the names; another asks no more."""
    region = copying(regions, kernel)
    regions.names[region] = {0: FIRST, 1: SECOND}

    def run() -> None:
        for _ in range(3):
            np.testing.assert_array_equal(regions.call(region, [tf.range(8.0)])[0], np.arange(8))

    run()
    assert region not in regions.named
    for turn in "ab":
        assert profiled(tmp_path / turn, run) == {FIRST, SECOND}
    assert regions.named[region] == [(1, 1, 8)]
    assert len(regions.builds[region]) == 1


def test_a_step_may_have_no_name(regions: Regions, kernel: Symbols, tmp_path: Path) -> None:
    region = copying(regions, kernel)
    regions.names[region] = {1: SECOND}
    assert profiled(tmp_path, lambda: regions.call(region, [tf.range(8.0)])) == {SECOND}


def test_steps_run_where_nobody_knows_their_names(regions: Regions, kernel: Symbols, tmp_path: Path) -> None:
    """The test's own function fails, for it has no names for the region."""
    region = copying(regions, kernel)
    assert profiled(tmp_path, lambda: regions.call(region, [tf.range(8.0)])) == set()
    assert len(regions.named[region]) == 1


def test_variables_are_not_locked_meanwhile(regions: Regions, kernel: Symbols, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    step = launch(kernel("increment"), (VARIABLE, 0))
    region = regions.add(lambda key: executable([], [step], state=[(0, 0)]))
    variable = tf.Variable(tf.range(8.0))
    seen = []

    class Names(dict[int, dict[int, str]]):
        def __missing__(self, number: int) -> dict[int, str]:
            variable.assign_add(tf.ones(8))
            seen.append(number)
            return {0: FIRST}

    monkeypatch.setattr(regions, "names", Names())
    assert profiled(tmp_path, lambda: regions.call(region, [], [variable], types=[])) == {FIRST}
    assert seen == [region]
    np.testing.assert_array_equal(variable, np.arange(8) + 2)


def test_parts_of_a_loop_have_names(regions: Regions, kernel: Symbols, tmp_path: Path) -> None:
    loop = LoopRegions(regions, COUNT, [tf.int32], less(kernel), counting(kernel))
    assert int(loop(0, 3, types=[tf.int32])[0]) == 3
    regions.names |= {loop.condition: {0: FIRST}, loop.body: {0: SECOND}}
    assert profiled(tmp_path, lambda: loop(0, 3, types=[tf.int32])) == {FIRST, SECOND}
    assert [len(regions.named[region]) for region in (loop.condition, loop.body)] == [1, 1]
