"""A region's two forms on the CPU: its kernels, and its own nodes as a function within the op."""

from __future__ import annotations

import gc
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.python.framework import config as determinism

from tests.native.conftest import COPY, INPUT, OUTPUT, VARIABLE, Regions, executable, launch
from tf_stitch.graph.fallback.fallback_function import PARALLEL, WRITTEN
from tf_stitch.native.bindings import IN_TURNS, UNLIMITED, Verdict
from tf_stitch.native.build import SOURCE_DIR

KERNELS = """
#include <time.h>
static void nap(void) { struct timespec t = {0, 3000000}; nanosleep(&t, 0); }
int fast(const tfs_env* env, void* const* a) { *(float*)a[1] = *(float*)a[0] + 1; return 0; }
int slow(const tfs_env* env, void* const* a) { nap(); return fast(env, a); }
int update(const tfs_env* env, void* const* a) { *(float*)a[0] += 1; return 0; }
int slow_update(const tfs_env* env, void* const* a) { nap(); *(float*)a[0] += 1; return 0; }
static int slow_but(int fast_ones, int run, const tfs_env* env, void* const* a) {  // every other run is timed
  if (run / 2 % 10 < 10 - fast_ones) nap();
  return fast(env, a);
}
int seldom_fast(const tfs_env* env, void* const* a) { static int runs; return slow_but(2, runs++, env, a); }
int at_times_fast(const tfs_env* env, void* const* a) { static int runs; return slow_but(4, runs++, env, a); }
int broken(const tfs_env* env, void* const* a) { return 7; }
"""
KEPT = 45
"""Calls after which a check has kept kernels that are not slower: one series was timed."""
DECIDED = 150
"""Calls after which a check has decided: six series."""
Symbols = Callable[[str], int]
WANTED = """\
a few calls: 0 live, then 0
not decided: 2 live, then 0
decided: 0 live, then 0
twice as fast: kernels in call 7, after 2 runs of the nodes
a slow first run: kernels in call 11, after 4 runs of the nodes
faster: kernels in call 11, after 4 runs of the nodes
as fast: kernels in call 15, after 6 runs of the nodes
faster at times: kernels in call 15, after 6 runs of the nodes
slower: nodes in call 70, after 36 runs of the nodes
one event to be had: 1 live, then 0
"""


@pytest.fixture(scope="module")
def kernel(compile_c: Callable[[str], Symbols]) -> Symbols:
    return compile_c(KERNELS)


def definition(function: Callable[..., Any], *specs: Any) -> bytes:
    """A Python function of tensors as a serialized FunctionDef."""
    concrete = tf.function(function).get_concrete_function(*specs)
    return bytes(concrete.function_def.SerializeToString())


SCALAR = tf.TensorSpec([], tf.float32)


def increment(x: tf.Tensor) -> tf.Tensor:
    return x + 1.0


def nap(x: tf.Tensor) -> tf.Tensor:
    """Takes some milliseconds."""
    return x + 1.0 + 0.0 * tf.reduce_sum(tf.random.normal([1 << 18]))


def increment_kernel(kernel: Symbols, name: str) -> list[int]:
    return executable([[]], [launch(kernel(name), (INPUT, 0), (OUTPUT, 0))])


@cache
def function_of(regions: Regions, region: int) -> Any:
    """One function for all calls: what a region has goes with the last one."""
    @tf.function
    def run(x: tf.Tensor) -> tf.Tensor:
        return regions.call(region, [x])[0]

    return run


def repeated(regions: Regions, region: int, calls: int = DECIDED) -> Any:
    run = function_of(regions, region)
    results = [float(run(tf.constant(float(i)))) for i in range(calls)]
    assert results == [i + 1.0 for i in range(calls)]
    return run


def outcome(regions: Regions, region: int) -> Any:
    return regions.verdict(region)


def test_a_slow_kernel_gives_way(regions: Regions, kernel: Symbols, check: None) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: definition(increment, SCALAR))
    repeated(regions, region)
    decided = outcome(regions, region)
    assert decided.prefers_fallback
    assert decided.stitched_us > 3000 > decided.fallback_us
    assert [(device, key) for device, key, _ in regions.settled[region]] == [(-1, (1, 0))]
    library = regions.library
    assert regions.calls[region] == library.region_runs(region) + 1
    assert library.region_runs(region) + library.region_preferred_fallbacks(region) == DECIDED
    assert library.region_fallbacks(region) == 0
    before = library.region_runs(region)
    repeated(regions, region)
    assert library.region_runs(region) == before
    assert len(regions.settled[region]) == 1


def test_a_verdict_is_recalled_from_the_first_call_on(regions: Regions, kernel: Symbols, check: None) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: definition(increment, SCALAR))
    repeated(regions, region)
    assert outcome(regions, region).prefers_fallback
    function_of.cache_clear()
    gc.collect()
    before = regions.library.region_preferred_fallbacks(region)
    repeated(regions, region, 30)
    assert len(regions.builds[region]) == 2
    assert regions.library.region_preferred_fallbacks(region) - before == 30
    assert len(regions.settled[region]) == 1


def test_no_verdict_is_recalled_where_nothing_is_timed(regions: Regions, kernel: Symbols) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: definition(increment, SCALAR))
    regions.known[region] = Verdict(True, 2.0, 1.0)
    repeated(regions, region, 5)
    assert regions.library.region_runs(region) == 5


def test_what_an_equal_region_has_settled_holds(regions: Regions, kernel: Symbols, check: None) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: definition(increment, SCALAR))
    repeated(regions, region, KEPT)
    regions.known[region] = Verdict(False, 1.0, 2.0)
    repeated(regions, region)
    assert region not in regions.settled
    assert regions.library.region_preferred_fallbacks(region) == 0


def test_a_region_looks_for_what_an_equal_one_has_found(regions: Regions, kernel: Symbols, check: None) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: definition(increment, SCALAR))
    repeated(regions, region, KEPT)
    regions.known[region] = Verdict(True, 2.0, 1.0, from_call=100)
    repeated(regions, region)
    assert region not in regions.settled
    assert regions.library.region_runs(region) == 99


@pytest.mark.parametrize("from_call", [0, 1, 2, 20])
def test_a_verdict_holds_from_its_call_on(regions: Regions, kernel: Symbols, check: None, from_call: int) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: definition(increment, SCALAR))
    regions.known[region] = Verdict(True, 2.0, 1.0, from_call)
    repeated(regions, region, 30)
    assert regions.library.region_runs(region) == max(from_call - 1, 0)
    assert regions.library.region_shadows(region) == 0


def test_forms_may_take_turns(regions: Regions, kernel: Symbols, check: None) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: definition(increment, SCALAR))
    regions.known[region] = Verdict(True, 2.0, 1.0, IN_TURNS)
    repeated(regions, region, 30)
    assert regions.library.region_runs(region) == regions.library.region_preferred_fallbacks(region) == 15


def test_callers_get_one_forms_results(regions: Regions, kernel: Symbols, check: None) -> None:
    """While the other form is timed: here it gives something else."""
    region = regions.add(lambda key: increment_kernel(kernel, "fast"),
                         subgraph=lambda _: definition(lambda x: x + 2.0, SCALAR))
    repeated(regions, region)
    assert regions.library.region_shadows(region) > 0
    assert regions.library.region_preferred_fallbacks(region) == 0


def test_the_form_changes_once(regions: Regions, kernel: Symbols, check: None) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"),
                         subgraph=lambda _: definition(lambda x: x + 2.0, SCALAR))
    run = function_of(regions, region)
    results = [float(run(tf.constant(0.0))) for _ in range(DECIDED)]
    assert results == sorted(results)
    assert set(results) == {1.0, 2.0}


@pytest.mark.parametrize(("name", "gives_way"), [("seldom_fast", True), ("at_times_fast", False)])
def test_a_kernel_whose_times_scatter(regions: Regions, kernel: Symbols, check: None, name: str, gives_way: bool
                                      ) -> None:
    """The fallback subgraph wins 24 pairs of thirty, or 21, which may be chance."""
    region = regions.add(lambda key: increment_kernel(kernel, name), subgraph=lambda _: definition(increment, SCALAR))
    repeated(regions, region, KEPT)
    assert outcome(regions, region) is None
    repeated(regions, region, DECIDED - KEPT)
    assert outcome(regions, region).prefers_fallback == gives_way
    assert outcome(regions, region).stitched_us > 3000 > outcome(regions, region).fallback_us


def test_series_are_apart(regions: Regions, kernel: Symbols) -> None:
    """A kernel does not give way for what happens within a moment."""
    slow, later = (regions.add(lambda key: increment_kernel(kernel, "slow"),
                               subgraph=lambda _: definition(increment, SCALAR)) for _ in range(2))
    library = regions.library
    try:
        library.enable_profitability_check(True, apart=3600, share=UNLIMITED)
        repeated(regions, slow)
        assert outcome(regions, slow) is None
        assert library.region_shadows(slow) == 6  # one to warm up, five that were timed
        library.enable_profitability_check(True, apart=0.2, share=UNLIMITED)
        start = time.monotonic()
        while outcome(regions, later) is None and time.monotonic() < start + 60:
            repeated(regions, later, 1)
        assert outcome(regions, later).prefers_fallback
        assert time.monotonic() > start + 5 * 0.2
    finally:
        library.enable_profitability_check(False)


def test_what_runs_in_the_shadow_takes_its_share_at_most(regions: Regions, kernel: Symbols) -> None:
    """Of all regions together."""
    function = definition(nap, tf.TensorSpec(None, tf.float32))
    both = [regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: function) for _ in range(2)]
    library, share = regions.library, 0.2
    try:
        library.enable_profitability_check(True, apart=0, share=share)
        start, shadows = time.monotonic(), 0
        while min(map(library.region_shadows, both)) < 3:
            for region in both:
                repeated(regions, region, 1)
            shadows = sum(map(library.region_shadows, both))
            assert time.monotonic() < start + 60
        took = time.monotonic() - start
        least = min(_seconds(lambda: nap(tf.constant(1.0))) for _ in range(5))
        assert shadows * least <= 1.5 * share * took
    finally:
        library.enable_profitability_check(False)


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_a_fast_kernel_stays(regions: Regions, kernel: Symbols, check: None) -> None:
    function = definition(nap, tf.TensorSpec(None, tf.float32))
    region = regions.add(lambda key: increment_kernel(kernel, "fast") if key[1] == 0 else None,
                         subgraph=lambda _: function)
    run = repeated(regions, region, KEPT)
    decided = outcome(regions, region)
    assert not decided.prefers_fallback
    assert decided.stitched_us < decided.fallback_us
    assert regions.library.region_shadows(region) == 4  # one to warm up, three that all took longer
    assert float(run(tf.constant([7.0]))[0]) == 8.0  # what was instantiated for them is gone, but can come back
    assert regions.library.region_fallbacks(region) == 1


def test_the_check_can_be_off(regions: Regions, kernel: Symbols) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: definition(increment, SCALAR))
    repeated(regions, region)
    assert outcome(regions, region) is None
    assert regions.library.region_runs(region) == DECIDED


def test_no_experiments_where_results_have_to_repeat(regions: Regions, kernel: Symbols, check: None) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: definition(increment, SCALAR))
    tf.config.experimental.enable_op_determinism()
    try:
        repeated(regions, region)
    finally:
        determinism.disable_op_determinism()
    assert regions.library.region_runs(region) == DECIDED


@pytest.mark.parametrize("answer", [None, b"not a function", "an op that fails"])
def test_without_a_subgraph_the_kernels_stay(regions: Regions, kernel: Symbols, check: None, answer: Any) -> None:
    if isinstance(answer, str):
        answer = definition(lambda x: tf.debugging.check_numerics(x / 0.0, "no") + 1.0, SCALAR)
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: answer)
    repeated(regions, region)
    assert outcome(regions, region) is None
    assert regions.library.region_runs(region) == DECIDED
    assert len(regions.untimed.get(region, [])) == (answer is not None and answer != b"not a function")


def test_seldom_shapes_are_not_sampled(regions: Regions, check: None) -> None:
    asked = []

    def subgraph(reason: str) -> None:
        asked.append(reason)

    region = regions.add(lambda key: executable([key[2:]], [[COPY, OUTPUT, 0, INPUT, 0, 4 * key[2]]]),
                         subgraph=subgraph)
    for _ in range(4):
        for size in range(1, 9):
            regions.call(region, [tf.zeros([size])])
    assert asked == []


def updating(step: float) -> bytes:
    """Nodes that add to a variable."""
    def update(handle: tf.Tensor) -> None:
        tf.raw_ops.AssignAddVariableOp(resource=handle, value=step)

    function = FunctionDef.FromString(definition(update, tf.TensorSpec([], tf.resource)))
    function.attr[WRITTEN].list.i.append(0)
    return bytes(function.SerializeToString())


def test_variables_are_updated_by_either_form(regions: Regions, kernel: Symbols, check: None) -> None:
    variable = tf.Variable(0.0)
    function = updating(1.0)
    words = executable([], [launch(kernel("slow_update"), (VARIABLE, 0))], state=[(0, 0)])
    region = regions.add(lambda key: words, subgraph=lambda _: function)

    @tf.function
    def run() -> None:
        regions.call(region, [], [variable], types=[])

    for i in range(1, DECIDED + 1):
        run()
        assert float(variable) == i
    assert outcome(regions, region).prefers_fallback
    assert regions.library.region_preferred_fallbacks(region) > 0


def test_what_is_timed_updates_copies(regions: Regions, kernel: Symbols, check: None) -> None:
    """Of variables, while other threads update them, too."""
    variable = tf.Variable(0.0)
    function = updating(1000.0)
    words = executable([], [launch(kernel("update"), (VARIABLE, 0))], state=[(0, 0)])
    region = regions.add(lambda key: words, subgraph=lambda _: function)

    @tf.function
    def run() -> None:
        regions.call(region, [], [variable], types=[])

    def work(_: int) -> None:
        for _ in range(DECIDED):
            run()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert regions.library.region_shadows(region) >= 2
    assert regions.library.region_preferred_fallbacks(region) == 0
    assert float(variable) == 4 * DECIDED


def test_variables_too_large_to_copy(regions: Regions, kernel: Symbols, check: None) -> None:
    variable = tf.Variable(tf.zeros([(64 << 20) + 1]))
    function = updating(1000.0)
    words = executable([], [launch(kernel("slow_update"), (VARIABLE, 0))], state=[(0, 0)])
    region = regions.add(lambda key: words, subgraph=lambda _: function)

    @tf.function
    def run() -> None:
        regions.call(region, [], [variable], types=[])

    for _ in range(KEPT):
        run()
    assert regions.untimed[region] == ["it writes variables, and copies of these would take 268435460 bytes"]
    assert float(variable[0]) == KEPT


def test_threads_decide_together(regions: Regions, kernel: Symbols, check: None) -> None:
    region = regions.add(lambda key: increment_kernel(kernel, "slow"), subgraph=lambda _: definition(increment, SCALAR))
    run = repeated(regions, region, calls=1)
    start = threading.Barrier(8)

    def work(first: int) -> list[float]:
        start.wait()
        return [float(run(tf.constant(float(i)))) for i in range(first, first + DECIDED)]

    with ThreadPoolExecutor(8) as pool:
        for i, results in enumerate(pool.map(work, range(8))):
            assert results == [float(i + 1 + k) for k in range(DECIDED)]
    assert outcome(regions, region).prefers_fallback


def test_fallback_runs_in_the_op(regions: Regions, kernel: Symbols) -> None:
    """Without Python but for the first call of each reason."""
    asked: list[str] = []

    def subgraph(reason: str) -> bytes:
        asked.append(reason)
        return definition(increment, SCALAR)

    def build(key: tuple[int, ...]) -> list[int]:
        raise ValueError("no schedule")

    unbuilt = regions.add(build, subgraph=subgraph)
    repeated(regions, unbuilt, calls=5)
    assert asked == ["ValueError: no schedule"]
    broken = regions.add(lambda key: increment_kernel(kernel, "broken"), subgraph=subgraph)
    repeated(regions, broken, calls=3)
    assert asked[1:] == ["tf_stitch: a generated kernel returned 7"]
    assert [regions.library.region_fallbacks(r) for r in (unbuilt, broken)] == [5, 3]
    counted = [(r, reason, n) for r, reason, n in regions.library.native_fallbacks() if r in (unbuilt, broken)]
    assert counted == [(unbuilt, asked[0], 5), (broken, asked[1], 3)]


def test_nodes_that_the_simplest_executor_refuses(regions: Regions) -> None:
    """What it left, TensorFlow would find again when another is asked for."""
    def switched(x: tf.Tensor) -> tf.Tensor:
        low, high = tf.raw_ops.Switch(data=x, pred=x > 0.0)
        return tf.raw_ops.Merge(inputs=[low - 1.0, high + 1.0])[0]

    function = definition(switched, SCALAR)
    region = regions.add(lambda key: None, subgraph=lambda _: function)
    run = function_of(regions, region)
    assert [float(run(tf.constant(x))) for x in (2.0, -2.0)] == [3.0, -3.0]


def test_what_the_nodes_raise_is_the_users_error(regions: Regions) -> None:
    function = definition(lambda x: tf.debugging.check_numerics(x, "not a number"), SCALAR)
    region = regions.add(lambda key: None, subgraph=lambda _: function)

    @tf.function
    def run(x: tf.Tensor) -> tf.Tensor:
        return regions.call(region, [x])[0]

    assert float(run(tf.constant(2.0))) == 2.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
        run(tf.constant(np.nan))
    assert float(run(tf.constant(3.0))) == 3.0


def test_fallback_in_a_session_that_is_closed(regions: Regions) -> None:
    """Kernels with state belong to the session, and outlive its functions."""
    def update(handle: tf.Tensor) -> tf.Tensor:
        tf.raw_ops.AssignAddVariableOp(resource=handle, value=1.0)
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)

    with tf.Graph().as_default():
        function = definition(update, tf.TensorSpec([], tf.resource))
        region = regions.add(lambda key: None, subgraph=lambda _: function)
        variable = tf.compat.v1.get_variable("counter", initializer=0.0, use_resource=True)
        [result] = regions.call(region, [], [variable])
        doubled = result * 2.0
        for _ in range(2):
            with tf.compat.v1.Session() as session:
                session.run(variable.initializer)
                assert [session.run(result) for _ in range(3)] == [1.0, 2.0, 3.0]
                assert session.run(doubled) == 8.0


def test_matmuls_of_the_fallback_subgraph_run_side_by_side(regions: Regions) -> None:
    """As TensorFlow runs them: two nodes that wait for each other come to an end, in many calls at a time."""
    together = threading.Barrier(2)

    def meets(x: Any) -> Any:
        together.wait(timeout=20)
        return x

    def both(x: tf.Tensor) -> tf.Tensor:
        return sum(tf.numpy_function(meets, [x], tf.float32, stateful=False) for _ in range(2)) - x + 1.0

    function = FunctionDef.FromString(definition(both, SCALAR))
    function.attr[PARALLEL].b = True
    region = regions.add(lambda key: None, subgraph=lambda _: function.SerializeToString())
    results = [float(regions.call(region, [tf.constant(float(i))])[0]) for i in range(5)]
    assert results == [i + 1.0 for i in range(5)]
    assert regions.library.region_fallbacks(region) == 5


def test_calls_that_wait_for_their_nodes_do_not_wait_for_each_other(regions: Regions) -> None:
    """More calls at a time than TensorFlow's pool has threads."""
    def matmuls(x: tf.Tensor) -> tf.Tensor:
        square = tf.fill([64, 64], x)
        return tf.reduce_sum(sum(tf.matmul(square, square + float(i)) for i in range(8)))

    function = FunctionDef.FromString(definition(matmuls, SCALAR))
    function.attr[PARALLEL].b = True
    region = regions.add(lambda key: None, subgraph=lambda _: function.SerializeToString())

    @tf.function
    def run(x: tf.Tensor) -> list[tf.Tensor]:
        return [regions.call(region, [x + float(i)])[0] for i in range(32)]

    wanted = [float(matmuls(tf.constant(float(i)))) for i in range(32)]
    for _ in range(5):
        np.testing.assert_allclose(run(tf.constant(0.0)), wanted, rtol=1e-5)


def test_events_go_with_a_check_that_has_not_decided(tmp_path: Path) -> None:
    program = tmp_path / "program"
    sources = [Path(__file__).with_name("profitability_events_program.cc"), SOURCE_DIR / "op/profitability_check.cc"]
    headers = (SOURCE_DIR, tf.sysconfig.get_include())
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", *(f"-I{folder}" for folder in headers), *map(str, sources),
                    "-o", str(program), "-pthread"], check=True)  # fmt: skip
    said = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == WANTED.splitlines()
