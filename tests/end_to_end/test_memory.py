"""Peak memory of a train step that is one region, against TensorFlow's own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.end_to_end.conftest import PROGRAMS, Run, Runner

CALLS = 32
"""Enough for the profitability check to have timed both forms."""
SETTLED = 1.05
"""What the whole run may take at most, by what its last call takes."""
MIB = 1 << 20
ROWS, ENOUGH, TIGHT, TOO_LITTLE = 4096, 1000, 28, 20
"""Of a batch, and MiB that a process has: its step takes 40 by kernels for the least time, and some 10 beside them."""
BETWEEN, BELOW = 100, 50
"""MiB: the step takes 109 by TensorFlow's ops and 95 by its kernels, 38 of them for what it writes; kernels that
compute values again do with some 50."""


def test_a_region_takes_no_more_memory_than_its_nodes(forked: Runner, cache: Path) -> None:
    options = {"TF_STITCH_SCOPE": "region", "TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_STITCH_CACHE": str(cache)}
    plain, stitched = (forked(PROGRAMS / "peak_memory.py", CALLS, stitch=stitch, **options) for stitch in ("", "1"))
    assert plain.returncode == stitched.returncode == 0, stitched.stderr[-3000:]
    assert stitched.report is not None
    [region] = stitched.report["regions"]
    assert region["runs"] + region["preferred_fallback_runs"] == CALLS
    assert region["shadow_runs"] == 0, "TensorFlow's ops would update copies of the variables, beside these"
    [build] = stitched.report["builds"]
    assert 0 < build["live_bytes"] <= build["arena_bytes"] <= 1.02 * build["live_bytes"]
    [wanted, peaks] = (json.loads(done.stdout)["peaks"] for done in (plain, stitched))
    print(f"MiB: {max(wanted) / MIB:.1f} by TensorFlow, {max(peaks) / MIB:.1f} stitched, "
          f"arena {build['arena_bytes'] / MIB:.1f} of at least {build['live_bytes'] / MIB:.1f}")
    on_gpu = bool(tf.config.list_physical_devices("GPU"))
    assert max(peaks) <= max(wanted)
    assert max(peaks) <= SETTLED * peaks[-1], "no call takes the memory of two forms of a step"
    graphs = region["cuda_graphs"]
    if on_gpu:
        assert graphs["failures"] == 0, graphs["error"]
        assert graphs["launches"] > 0
        assert graphs["instances"] <= 4
    else:
        assert graphs is None


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="the limit is a CPU's")
def test_a_step_that_dies_of_memory_in_tensorflow_runs(forked: Runner, cache: Path) -> None:
    """Where neither its kernels nor TensorFlow's own ops have room, the error is TensorFlow's."""
    def trained(mib: int, stitch: str) -> Run:
        return forked(PROGRAMS / "peak_memory.py", 3, stitch=stitch, TF_STITCH_SCOPE="region",
                      TF_STITCH_CACHE=str(cache), TF_CPU_ALLOCATOR_USE_BFC="1", TF_CPU_BFC_MEM_LIMIT_IN_MB=str(mib))

    assert "ResourceExhaustedError" in trained(BETWEEN, "").stderr
    stitched = trained(BETWEEN, "1")
    assert stitched.returncode == 0, stitched.stderr[-3000:]
    assert stitched.report is not None
    assert [region["fallbacks"] for region in stitched.report["regions"]] == [0]
    neither = trained(BELOW, "1")
    assert "ResourceExhaustedError" in neither.stderr
    assert neither.report is not None
    [said] = [entry["reason"] for entry in neither.report["fallbacks"] if entry["stage"] == "run"]
    assert re.match(r"no memory for the kernels of a region, which take \d+ bytes of scratch memory and \d+", said)


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="a CPU's kernels add in one order alone")
def test_budgets_change_memory_and_no_bit(forked: Runner, cache: Path) -> None:
    """Dropout, normalization and moments included."""
    bits, alive, curves = [], [], []
    for budget in ("auto", "0.5", "3MiB"):
        done = forked(PROGRAMS / "memory_budget.py", TF_STITCH_SCOPE="region", TF_STITCH_CACHE=str(cache),
                      TF_STITCH_MEMORY=budget, TF_STITCH_GUARD="0")
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.report is not None
        assert not done.report["fallbacks"]
        bits.append(json.loads(done.stdout))
        alive.append(max(build["live_bytes"] for build in done.report["builds"]))
        curves.append([build["memory"]["budgets"] for build in done.report["builds"] if build["memory"]])
    print(f"bytes alive: {alive}")
    assert not any(curves[0]), "what takes seconds is of runs that have a budget"
    assert any(curves[1])
    impossible = forked(PROGRAMS / "memory_budget.py", TF_STITCH_SCOPE="region", TF_STITCH_CACHE=str(cache),
                        TF_STITCH_MEMORY="1KiB", TF_STITCH_GUARD="0").report
    assert impossible is not None
    assert any("more than TF_STITCH_MEMORY allows" in remark["reason"] for remark in impossible["remarks"])
    assert bits[1] == bits[2] == bits[0]
    assert alive[1] <= 0.65 * alive[0], "half of the activations, which are most of it"
    assert alive[2] < alive[0], "a step that would take 4 MiB"


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="the limit is a CPU's")
def test_a_step_that_does_not_fit_is_planned_smaller(forked: Runner, cache: Path) -> None:
    """With the same bits; where nothing fits, TensorFlow's error says what the step would need, and what takes it."""
    def trained(mib: int) -> Run:
        return forked(PROGRAMS / "memory_budget.py", ROWS, TF_STITCH_SCOPE="region", TF_STITCH_CACHE=str(cache),
                      TF_STITCH_GUARD="0", TF_CPU_ALLOCATOR_USE_BFC="1", TF_CPU_BFC_MEM_LIMIT_IN_MB=str(mib),
                      TF_STITCH_FIRST_STEP_SECONDS="0")

    whole, smaller, nothing = map(trained, (ENOUGH, TIGHT, TOO_LITTLE))
    assert whole.returncode == smaller.returncode == 0, smaller.stderr[-3000:]
    assert smaller.report is not None
    assert whole.report is not None
    assert json.loads(smaller.stdout) == json.loads(whole.stdout)
    assert [region["fallbacks"] for region in smaller.report["regions"]] == [0, 0]
    [before, *_, after] = [build["arena_bytes"] for build in smaller.report["builds"] if build["arena_bytes"] > MIB]
    print(f"MiB of scratch memory: {before / MIB:.1f}, where {TIGHT} are all there is {after / MIB:.1f}")
    assert after < TIGHT * MIB < before
    assert not [remark for remark in whole.report["remarks"] if "planned again" in remark["reason"]]
    [*_, said] = [line for line in smaller.stderr.splitlines() if "planned again" in line]
    assert re.search(r"took [\d.]+ MiB, and [\d.]+ MiB for results, of [\d.]+ MiB that are free: planned again", said)
    assert nothing.returncode != 0
    assert re.search(r"(?s)ResourceExhaustedError.*\[tf_stitch\] region \d+ .*its kernels need [\d.]+ MiB at "
                     r"least.*most take functional_1/", nothing.stderr)


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="of the plan, which a CPU shows")
def test_what_a_program_computes_again_is_computed_again(forked: Runner, cache: Path) -> None:
    """keras.remat and tf.recompute_grad, by what is alive: no pass merges what they keep apart."""
    alive, losses = {}, {}
    for kind in ("plain", "recompute_grad", "remat"):
        done = forked(PROGRAMS / "remat.py", kind, TF_STITCH_SCOPE="region", TF_STITCH_CACHE=str(cache))
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.report is not None
        assert not done.report["fallbacks"]
        alive[kind] = max(build["live_bytes"] for build in done.report["builds"])
        losses[kind] = done.stdout
    print(f"bytes alive: {alive}")
    assert alive["remat"] == alive["recompute_grad"] <= 0.4 * alive["plain"]
    assert len(set(losses.values())) == 1


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="of the plan, which a CPU shows")
def test_losses_without_their_logits_in_memory(forked: Runner, cache: Path) -> None:
    """As Keras has them: classes or chances, smoothed, masked, some labels ignored."""
    kinds = ("sparse", "ignored", "masked", "smoothed")
    plain = json.loads(forked(PROGRAMS / "wide_loss.py", *kinds, stitch="").stdout)
    alive = []
    for memory in ("auto", "1KiB"):  # as little as can be
        done = forked(PROGRAMS / "wide_loss.py", *kinds, TF_STITCH_SCOPE="region", TF_STITCH_CACHE=str(cache),
                      TF_STITCH_MEMORY=memory, TF_STITCH_GUARD="0", TF_STITCH_FIRST_STEP_SECONDS="60")
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.report is not None
        assert not done.report["fallbacks"]
        alive.append([build["live_bytes"] for build in done.report["builds"]])
        for kind, found in json.loads(done.stdout).items():
            np.testing.assert_allclose(found["losses"], plain[kind]["losses"], rtol=1e-5, err_msg=kind)
            np.testing.assert_allclose(found["weights"], plain[kind]["weights"], rtol=1e-4, atol=1e-6, err_msg=kind)
    print(f"bytes alive: {alive}")
    assert len(alive[0]) == len(kinds)
    assert all(pieces < 0.5 * whole for whole, pieces in zip(*alive, strict=True))
