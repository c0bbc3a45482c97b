"""The subgraphs that are measured on CPUs: both of TensorFlow's ways compute the same; the table says who is faster."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tools.benchmark.cpu_cases import CPU_CASES, CpuCase
from tools.benchmark.cpu_table import table

ONE_OF_EACH = {case.build.__name__: case for case in CPU_CASES}


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_xla_computes_the_same(name: str) -> None:
    case = ONE_OF_EACH[name]
    plain, xla = (case.build(tf, 16, 10, compiled)() for compiled in (False, True))
    assert len(plain) == len(xla) > 0
    for a, b in zip(plain, xla, strict=True):
        assert np.ptp(a.numpy()) > 0
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_names_say_the_size() -> None:
    for case in CPU_CASES:
        size = case.name.rpartition(" ")[2]
        assert np.prod([int(n) for n in size.split("x")]) == case.rows * case.columns
    assert CpuCase("softmax 4x8", 4, 8, ONE_OF_EACH["softmax"].build, 2).floor_bytes == 2 * 4 * 8 * 4


def test_the_table_compares_with_the_better_of_both() -> None:
    row = {"name": "softmax 1x1", "set": "cpu", "machine": {"cpu": "x"}, "floor_us": 10.0, "tf_us": 300.0,
           "xla_us": 150.0, "stitch_us": 100.0, "launches": 1, "right": True}  # fmt: skip
    assert table([row]).splitlines()[-1] == "| softmax 1x1 | 10 | 300 | 150 | 100 | 3.00 | 1.50 | 1 |"
    assert table([row | {"right": False}]).splitlines()[-1].endswith("| 1 WRONG |")
