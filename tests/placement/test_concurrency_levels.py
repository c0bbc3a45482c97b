"""Kernels of one level may run at the same time: they touch nothing that one of them writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tf_stitch.placement.concurrency_levels import Touch, concurrency_levels

TOUCH = st.builds(Touch, st.sampled_from("abcd"), st.booleans(), st.sampled_from([0, 1 << 21, None]))


def read(memory: str) -> Touch:
    return Touch(memory, False)


def write(memory: str) -> Touch:
    return Touch(memory, True)


def test_who_overwrites_waits_for_who_reads() -> None:
    assert concurrency_levels([[read("v"), write("a")], [read("x"), write("v")]]) == [0, 1]
    assert concurrency_levels([[read("v"), write("a")], [read("v"), write("b")]]) == [0, 0]
    assert concurrency_levels([[write("a")], [read("a"), write("b")], [write("a")]]) == [0, 1, 2]


@given(st.lists(st.lists(TOUCH, min_size=1, max_size=3), max_size=8))
def test_conflicts_keep_their_order(kernels: list[list[Touch]]) -> None:
    levels = concurrency_levels(kernels)
    for i, later in enumerate(kernels):
        for j, earlier in enumerate(kernels[:i]):
            if any(a.memory == b.memory and (a.writes or b.writes) for a in earlier for b in later):
                assert levels[j] < levels[i]
