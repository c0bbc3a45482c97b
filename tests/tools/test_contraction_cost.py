"""The tool times what the builders build, against what they would build with fma."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.runner import cache
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.runtime import host_builder, nvrtc_builder
from tools.benchmark.subgraphs import SUBGRAPHS
from tools.contraction_cost import CONTRACTS, built, sized


def test_the_builders_have_the_options() -> None:
    assert set(CONTRACTS) == {"-ffp-contract=off", "--fmad=false"}
    assert set(CONTRACTS) <= {*host_builder.OPTIONS, *nvrtc_builder.OPTIONS}


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
def test_two_binaries_of_one_source(device: DeviceSpec) -> None:
    kernels, paths = built(sized(SUBGRAPHS[0], 1 << 12), device, cache())
    assert kernels
    assert len({Path(path).read_bytes() for path in paths}) == 2
