"""Functions that a process has built are known to later ones with the same settings, and to no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tf_stitch.config import StitchConfig
from tf_stitch.plugin.known_functions import KnownFunctions


def test_later_processes_know_what_was_built(tmp_path: Path) -> None:
    config = StitchConfig(cache_dir=tmp_path)
    KnownFunctions(config).add("a")
    assert "a" in KnownFunctions(config)
    assert "b" not in KnownFunctions(config)
    assert "a" not in KnownFunctions(replace(config, planner="greedy"))


def test_a_folder_that_is_only_read_is_read(tmp_path: Path) -> None:
    config = StitchConfig(cache_dir=tmp_path)
    KnownFunctions(config).add("a")
    folder = tmp_path / "functions"
    folder.chmod(0o500)
    try:
        known = KnownFunctions(config)
        known.add("b")
        assert "a" in known
    finally:
        folder.chmod(0o700)
