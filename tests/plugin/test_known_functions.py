"""Functions that a process has built are known to later ones with the same settings, and to no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import tensorflow as tf

from tf_stitch.config import StitchConfig
from tf_stitch.plugin.known_functions import KnownFunctions
from tf_stitch.runtime.kernel_cache import KernelCache


def known(config: StitchConfig) -> KnownFunctions:
    """As another process has them."""
    return KnownFunctions(config, KernelCache(config.cache_dir / "functions"))


def test_later_processes_know_what_was_built(tmp_path: Path) -> None:
    config = StitchConfig(cache_dir=tmp_path)
    known(config).add("a", 7)
    assert known(config).recall("a") == 7
    assert known(config).recall("b") is None
    assert known(replace(config, planner="greedy")).recall("a") is None


def test_kernels_of_one_kind_of_gpu_are_not_those_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def on(*gpus: str) -> KnownFunctions:
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: list(gpus))
        monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"device_name": gpu})
        return known(StitchConfig(cache_dir=tmp_path))

    on("H200").add("a", 7)
    assert on("H200").recall("a") == 7
    assert on("H100").recall("a") is None
    assert on().recall("a") is None


def test_a_folder_that_is_only_read_is_read(tmp_path: Path) -> None:
    config = StitchConfig(cache_dir=tmp_path)
    known(config).add("a", 7)
    folder = tmp_path / "functions"
    folder.chmod(0o500)
    try:
        later = known(config)
        later.add("b", 9)
        assert later.recall("a") == 7
    finally:
        folder.chmod(0o700)


def test_why_keys_are_not_kept_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tf_stitch.runtime.kernel_cache._store", full)
    cache = KernelCache(tmp_path / "functions")
    KnownFunctions(StitchConfig(cache_dir=tmp_path), cache).add("a", 7)
    assert cache.problem is not None
    assert "No space left" in cache.problem
