"""Devices that nobody measured: what follows from the shipped profile and what the driver says."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tf_stitch.device.default_profile import DriverFacts, default_profile, facts_of
from tf_stitch.device.profile import DeviceProfile, interpolate, parse_profile
from tf_stitch.device.spec import H200

FACTS = facts_of(H200.profile.made)
GROUPS = ("kernels", "matmul_kernels", "choices", "library_calls", "sizes")


def scaled(facts: DriverFacts) -> DeviceProfile:
    return default_profile("made up", facts, H200.profile)


def test_a_device_of_which_the_driver_says_the_same_is_the_same() -> None:
    same = scaled(FACTS)
    for one in fields(DeviceProfile):
        if one.name not in ("name", "matmuls", "numbers", "made"):
            assert getattr(same, one.name) == getattr(H200.profile, one.name), one.name
    for (dtype, times), (other, others) in zip(same.matmuls, H200.profile.matmuls, strict=True):
        assert (dtype, times.axes, times.us) == (other, others.axes, pytest.approx(others.us))
    assert all(getattr(same, group) == getattr(H200.profile, group) for group in GROUPS)


def test_half_the_bandwidth_of_memory() -> None:
    slow = scaled(replace(FACTS, memory_gbps=FACTS.memory_gbps / 2))
    large, small = 1 << 31, 1 << 22
    assert interpolate(slow.bandwidth, large) == interpolate(H200.profile.bandwidth, large) / 2
    assert interpolate(slow.bandwidth, small) == interpolate(H200.profile.bandwidth, small)
    assert slow.sizes.cycles_per_byte == 2 * H200.profile.sizes.cycles_per_byte
    assert slow.sizes.packed_elements == H200.profile.sizes.packed_elements // 2
    assert slow.sizes.early_bytes == H200.profile.sizes.early_bytes // 2
    assert slow.sizes.order_bytes == H200.profile.sizes.order_bytes // 2
    element_us = H200.profile.library_calls.attention_gradient_element_us
    assert slow.library_calls.attention_gradient_element_us == pytest.approx(2 * element_us)
    assert slow.matmul_kernels == H200.profile.matmul_kernels
    few_rows = 1, 16, 4096, 4096
    before, after = (profile.matmul_us("float32", few_rows) for profile in (H200.profile, slow))
    assert before is not None
    assert after == pytest.approx(2 * before - slow.launch_us)


def test_half_the_processors() -> None:
    small = scaled(replace(FACTS, processors=FACTS.processors // 2))
    assert small.rate("float32", "add", 1) == H200.profile.rate("float32", "add", 1) / 2
    assert small.matmul_kernels.tensor_rate == pytest.approx(H200.profile.matmul_kernels.tensor_rate)
    assert small.matmul_kernels.pair_gbps == pytest.approx(H200.profile.matmul_kernels.pair_gbps)
    term_us = H200.profile.library_calls.attention_term_us
    assert small.library_calls.attention_term_us == pytest.approx(2 * term_us)


def test_what_the_driver_does_not_say_is_as_on_the_other_device() -> None:
    silent = scaled(DriverFacts(processors=66, clock_mhz=0, memory_gbps=0, cache_bytes=0, shared_bytes=0))
    assert replace(silent, made={}) == replace(scaled(replace(FACTS, processors=66)), made={})


def test_a_smaller_cache() -> None:
    small = scaled(replace(FACTS, cache_bytes=4 << 20))
    last = interpolate(H200.profile.bandwidth, 1 << 26)
    assert [interpolate(small.bandwidth, 1 << n) for n in (23, 24, 26)] == [last] * 3
    assert interpolate(small.bandwidth, 1 << 22) == interpolate(H200.profile.bandwidth, 1 << 22)


def test_a_larger_cache() -> None:
    large = scaled(replace(FACTS, cache_bytes=128 << 20))
    last = interpolate(H200.profile.bandwidth, 1 << 25)
    assert interpolate(large.bandwidth, 1 << 27) == last
    assert interpolate(large.bandwidth, 1 << 28) == interpolate(H200.profile.bandwidth, 1 << 28)


def test_a_number_that_a_device_has_of_its_own_does_not_follow() -> None:
    document = scaled(FACTS).document()
    document["numbers"] = {"sizes.packed_elements": {"value": 5, "unit": "elements", "measured": "by a test"}}
    profile = replace(parse_profile(document), launch_us=1000.0)
    assert profile.sizes.packed_elements == 5
    assert profile.choices.tie_us > 100 * H200.profile.choices.tie_us
