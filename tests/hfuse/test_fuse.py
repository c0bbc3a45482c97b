"""Fused kernels do what the separate ones do, whichever thread is ahead: they run on this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.hfuse.generator import random_kernel
from tests.hfuse.sources import COUNTED, EARLY, GRID_2D, HELPED, NAMES, PLAIN, REDUCE, SHUFFLED, TEMPLATE, TUNABLE, Case
from tests.support.cuda_on_cpu import ADVERSARIES, Adversary, LaunchError, Order
from tests.support.handwritten_on_cpu import run_fused, run_separate
from tf_stitch.errors import SourceError
from tf_stitch.hfuse.fuse import Fused, fuse

CASES = {"plain": PLAIN, "reduce": REDUCE, "early": EARLY, "grid": GRID_2D, "helped": HELPED, "names": NAMES,
         "shuffled": SHUFFLED, "template": TEMPLATE, "counted": COUNTED, "tunable": TUNABLE}
PAIRS = [("plain", "reduce"), ("reduce", "reduce"), ("early", "reduce"), ("reduce", "early"), ("early", "early"),
         ("grid", "reduce"), ("reduce", "grid"), ("helped", "names"), ("names", "helped"), ("shuffled", "early"),
         ("template", "counted"), ("counted", "template"), ("tunable", "reduce")]


@dataclass(frozen=True)
class Run:
    """Results of both kernels: what they wrote."""

    first: list[np.ndarray]  # type: ignore[type-arg]
    second: list[np.ndarray]  # type: ignore[type-arg]


def fused_of(one: Case, two: Case, vertical: bool = False) -> Fused:
    return fuse([one.kernel(), two.kernel()], [one.shape, two.shape], "90", vertical)


def together(fused: Fused, one: Case, two: Case, adversary: Adversary) -> Run:
    first, second = one.arguments(1), two.arguments(2)
    run_fused(fused, [*first, *second], adversary)
    return Run(*([a for a in arguments if isinstance(a, np.ndarray)] for arguments in (first, second)))


def alone(case: Case, seed: int) -> list[np.ndarray]:  # type: ignore[type-arg]
    """What the kernel gives by itself."""
    arguments = case.arguments(seed)
    want = None if case.expected is None else case.expected(arguments)
    run_separate(case.kernel(), case.shape, arguments, Adversary(Order.AHEAD))
    found = [a for a in arguments if isinstance(a, np.ndarray)]
    assert want is None or all(np.array_equal(a, b) for a, b in zip(found, want, strict=True))
    return found


def equal(got: Run, want: Run) -> bool:
    return all(np.array_equal(a.view(np.uint8), b.view(np.uint8))
               for a, b in zip(got.first + got.second, want.first + want.second, strict=True))


RUNS = [*((pair, False) for pair in PAIRS), *((pair, True) for pair in PAIRS[1:6] if pair[0] != "early")]


@pytest.mark.parametrize(("pair", "vertical"), RUNS,
                         ids=lambda p: "+".join(p) if isinstance(p, tuple) else "vertical" if p else "horizontal")
def test_fused_kernels_are_bitwise_equal_to_separate_ones(pair: tuple[str, str], vertical: bool) -> None:
    one, two = (CASES[name] for name in pair)
    want = Run(alone(one, 1), alone(two, 2))
    fused = fused_of(one, two, vertical)
    for adversary in ADVERSARIES:
        assert equal(together(fused, one, two, adversary), want), adversary


def test_no_kernel_follows_one_whose_threads_return_before_others_wait() -> None:
    with pytest.raises(SourceError, match="no kernel can follow in the same threads"):
        fused_of(EARLY, REDUCE, vertical=True)
    assert fused_of(REDUCE, EARLY, vertical=True).threads == 64


@pytest.mark.parametrize("pair", [("early", "reduce"), ("early", "early"), ("early", "shuffled")], ids="+".join)
def test_none_waits_for_ever_behind_threads_that_returned(pair: tuple[str, str],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused would be right where the threads of a warp go on independently."""
    monkeypatch.setattr("tf_stitch.hfuse.fuse._check_order", lambda parts: None)
    one, two = (CASES[name] for name in pair)
    want = Run(alone(one, 1), alone(two, 2))
    fused = fused_of(one, two, vertical=True)
    for adversary in ADVERSARIES:
        assert equal(together(fused, one, two, adversary), want), adversary


@pytest.mark.parametrize("vertical", [False, True])
def test_a_warp_that_comes_together_before_its_threads_leave_waits_for_ever(vertical: bool,
                                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that returned would wait for the rest of their warp, and the rest at a barrier for them."""
    monkeypatch.setattr("tf_stitch.hfuse.fuse._check_order", lambda parts: None)
    fused = broken(fused_of(EARLY, REDUCE, vertical), r" hfuse_1::hfuse_leave", "__syncwarp(); hfuse_1::hfuse_leave")
    for adversary in ADVERSARIES:
        with pytest.raises(LaunchError, match="deadlock"):
            together(fused, EARLY, REDUCE, adversary)


def broken(fused: Fused, old: str, new: str) -> Fused:
    source = re.sub(old, new, fused.source, count=1)
    assert source != fused.source
    return replace(fused, source=source)


BREAKS = {
    "too many threads": (REDUCE, PLAIN, r"hfuse_bar_sync<1, 64>", "hfuse_bar_sync<1, 96>"),
    "no whole warp": (REDUCE, PLAIN, r"hfuse_bar_sync<1, 64>", "hfuse_bar_sync<1, 40>"),
    "too few threads": (REDUCE, PLAIN, r"hfuse_bar_sync<1, 64>", "hfuse_bar_sync<1, 32>"),
    "one number for both": (REDUCE, GRID_2D, r"hfuse_bar_sync<2, ", "hfuse_bar_sync<1, "),
    "the whole block": (REDUCE, PLAIN, r"hfuse_bar_sync<1, 64>\(\)", "__syncthreads()"),
    "returned threads leave": (EARLY, PLAIN, r" hfuse_1::hfuse_leave\(\);", ""),
    "no barrier": (REDUCE, PLAIN, r"hfuse_bar_sync<1, 64>\(\);", ""),
    "one memory": (REDUCE, REDUCE, r"tfs_shared \+ 256", "tfs_shared + 0"),
    "another part's threads": (PLAIN, REDUCE, r"threadIdx\.x - 96u", "threadIdx.x - 64u"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_broken_fused_kernels_are_seen(name: str) -> None:
    """A wrong number of threads at a barrier ends as an error, not as a program that hangs."""
    one, two, old, new = BREAKS[name]
    fused = broken(fused_of(one, two), old, new)
    want = Run(alone(one, 1), alone(two, 2))

    def wrong(adversary: Adversary) -> bool:
        try:
            return not equal(together(fused, one, two, adversary), want)
        except LaunchError:
            return True

    assert any(wrong(adversary) for adversary in ADVERSARIES)


def test_a_wrong_number_of_threads_is_a_deadlock_that_ends() -> None:
    fused = fused_of(REDUCE, PLAIN)
    with pytest.raises(LaunchError, match=r"deadlock.* at a barrier of some of the block's threads"):
        together(broken(fused, "<1, 64>", "<1, 96>"), REDUCE, PLAIN, Adversary(Order.AHEAD))
    with pytest.raises(LaunchError, match="whole warps"):
        together(broken(fused, "<1, 64>", "<1, 40>"), REDUCE, PLAIN, Adversary(Order.AHEAD))


@pytest.mark.parametrize("seed", range(4))
def test_random_pairs(seed: int) -> None:
    one, two = random_kernel(2 * seed), random_kernel(2 * seed + 1)
    want = Run(alone(one, 1), alone(two, 2))
    fused = fused_of(one, two)
    for adversary in ADVERSARIES:
        assert equal(together(fused, one, two, adversary), want), (adversary, one.text, two.text)


def test_parameters_of_one_name_are_renamed() -> None:
    source = fused_of(REDUCE, REDUCE).source
    assert "float * y_1" in source
    assert "float * y_2" in source


def test_register_bound_is_blocks_of_a_processor() -> None:
    fused = fuse([PLAIN.kernel(), REDUCE.kernel()], [PLAIN.shape, REDUCE.shape], "90", resident=4)
    assert "__launch_bounds__(160, 4)" in fused.source
