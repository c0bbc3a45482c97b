"""What a GPU is told to load before a region runs there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.jit.test_region_builder import H200, has_nvrtc
from tf_stitch.config import StitchConfig
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.jit.build_key import Key
from tf_stitch.jit.region_builder import CPU_ORDINAL, RegionBuilder
from tf_stitch.jit.region_registry import RegionRegistry
from tf_stitch.native.bindings import DeviceMemory
from tf_stitch.report.dump import Dump
from tf_stitch.report.report import Report


@pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC")
@pytest.mark.parametrize("device", [0, CPU_ORDINAL])
def test_what_is_built_ahead_is_loaded_and_its_memory_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                               device: int) -> None:
    spec = RegionBuilder._spec
    monkeypatch.setattr(RegionBuilder, "_spec", lambda self, n: spec(self, n) if n == CPU_ORDINAL else H200)
    monkeypatch.setattr(RegionBuilder, "_records", lambda self, n, path: tmp_path / "none.json")
    loaded: list[Any] = []
    registry = RegionRegistry(StitchConfig(cache_dir=tmp_path), Report(), Dump(None),
                              load_ahead=lambda *what: loaded.append(what))
    registry.memory.saw(0, DeviceMemory(0, 1 << 30))
    b = Builder()
    x, scale = b.input("i0", DType.F32, (64, 8)), b.variable("v0", DType.F16, (8,))
    y = b.mul(b.exp(x), b.cast(scale, DType.F32))
    graph = TensorGraph("region", [("o0", b.cast(y, DType.F16)), ("o1", y)])
    number = registry.register(RegionGraph(graph, ("a", "b"), ("x:0",), ("scale:0",), {"b:0": 0, "c:0": 1}), group=0)
    assert registry.build_ahead({number: device}, tf32=False)
    if device == CPU_ORDINAL:
        assert not loaded
        return
    built = registry.build(number, device, Key(True, ((64, 8), (8,))))
    assert loaded == [(device, built.words, [64 * 8 * 4], [8 * 2], [2, 4])]
    assert registry.memory._own
