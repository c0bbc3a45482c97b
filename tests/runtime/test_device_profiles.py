"""Which profile a GPU of this machine has, by what a made-up driver says."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tf_stitch.device.default_profile import facts_of
from tf_stitch.device.profile import write_profile
from tf_stitch.device.spec import H200, DeviceSpec
from tf_stitch.runtime import device_profiles, device_query

H200_SAYS = {16: 132, 13: 1_980_000, 36: 3_201_000, 37: 6016, 38: 62914560, 97: 232448, 75: 9, 76: 0}
"""CU_DEVICE_ATTRIBUTE_... -> what the driver of an H200 says."""


class Driver:
    """Stands for libcuda.so.1."""

    def __init__(self, name: str, says: dict[int, int]) -> None:
        self._name, self._says = name, says

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: Any) -> int:
        if attribute not in self._says:
            return 1
        value._obj.value = self._says[attribute]
        return 0

    def cuDeviceGetName(self, text: Any, size: int, device: Any) -> int:
        text.value = self._name.encode()
        return 0


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    query = device_query
    cached = query.gpu_name, query.driver_facts, query.compute_capability, device_profiles.device_spec
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def spec(name: str, says: dict[int, int], patch: pytest.MonkeyPatch, cache_dir: Path | None = None) -> DeviceSpec:
    patch.setattr(device_query, "_cuda_device", lambda ordinal: (Driver(name, says), ctypes.c_int()))
    return device_profiles.device_spec(cache_dir, 0)


def test_an_h200_has_the_shipped_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spec("NVIDIA H200", H200_SAYS, monkeypatch) == H200
    assert device_query.driver_facts(0) == facts_of(H200.profile.made)


def test_another_gpu_has_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """An A100 of 40 GB, by what it is sold as."""
    says = H200_SAYS | {16: 108, 13: 1_410_000, 36: 1_215_000, 37: 5120, 38: 40 << 20, 97: 166912, 75: 8, 76: 0}
    found = spec("NVIDIA A100-SXM4-40GB", says, monkeypatch)
    assert (found.name, found.architecture, found.processors) == ("NVIDIA A100-SXM4-40GB", "80", 108)
    assert (found.shared_bytes, found.profile.cache_bytes) == (166912, 40 << 20)
    assert found.profile.bandwidth[-1][1] == pytest.approx(4302 * 1555.2 / 4814.304)
    assert found.profile.rate("float32", "add", 1) == pytest.approx(32270 * 108 * 1.41 / (132 * 1.98))


def test_a_gpu_that_says_nothing_is_like_an_h200(monkeypatch: pytest.MonkeyPatch) -> None:
    found = spec("NVIDIA GRID", {75: 9, 76: 0}, monkeypatch)
    assert found.profile.bandwidth == H200.profile.bandwidth
    assert found.processors == 132


def test_the_users_own_profile_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(device_query, "_cuda_device", lambda ordinal: (Driver("NVIDIA X", H200_SAYS), ctypes.c_int()))
    write_profile(H200.profile, device_profiles.own_profile_path(tmp_path, "cuda"), in_cache=True)
    assert device_profiles.device_spec(tmp_path, 0).profile == H200.profile
