"""The subgraphs that `tools/h200_subgraphs.py` measures, small: the tensor IR and its CPU kernels against NumPy."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import CPU
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_run import HostExecutable
from tf_stitch.runtime.kernel_cache import KernelCache
from tools.benchmark.maths import array_maths
from tools.benchmark.subgraphs import KEEP, SUBGRAPHS, Subgraph

ROWS, COLUMNS = 33, 70


def random_values(subgraph: Subgraph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    make = {
        "normal": lambda shape: random.standard_normal(shape, np.float32),
        "positive": lambda shape: random.random(shape, np.float32) + np.float32(0.5),
        "mask": lambda shape: (random.random(shape) < KEEP).astype(np.float32) / np.float32(KEEP),
        "labels": lambda shape: random.integers(0, subgraph.columns, shape, np.int32),
    }
    return {name: make[operand.kind](subgraph.shape(name)) for name, operand in subgraph.operands.items()}


@pytest.mark.parametrize("subgraph", SUBGRAPHS, ids=lambda subgraph: subgraph.name)
def test_kernels_do_the_maths(subgraph: Subgraph, tmp_path: Path) -> None:
    small = subgraph.resized(1 if subgraph.rows == 1 else ROWS, COLUMNS)
    values = random_values(small)
    wide = {name: v.astype(np.float64) if v.dtype == np.float32 else v for name, v in values.items()}
    wanted = small.evaluate(array_maths(np, np.vectorize(math.erf)), wide)
    region = compile_region(small.graph(), small.inputs(), small.variables(), CompileOptions(CPU))
    library = build_host(region.source, CPU.architecture, KernelCache(tmp_path))
    outputs, state = HostExecutable(region.executable, library).run(values, values)
    names = [name for name in wanted if name not in small.variables()]
    actual = dict(zip(names, outputs, strict=True)) | state
    for name, value in wanted.items():
        np.testing.assert_allclose(actual[name].reshape(value.shape), value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_floors_are_those_of_the_field() -> None:
    # Microseconds at the 4.16 TB/s that the published table was made with.
    floors = {subgraph.name: subgraph.floor_bytes() / 4.16e6 for subgraph in SUBGRAPHS}
    assert len(floors) == 14
    assert floors["layernorm 131072x1024"] == pytest.approx(258, abs=1)
    assert floors["adam 100000000"] == pytest.approx(673, abs=1)
    assert floors["batchnorm training 262144x256"] == pytest.approx(193, abs=1)
