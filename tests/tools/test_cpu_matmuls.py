"""Matmuls that are timed on one core."""

from __future__ import annotations

import math

import pytest

from tests.differential.runner import check_all, region
from tools import cpu_matmuls


def test_kernels_of_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_matmuls, "SIZES", ((20, 24, 20),))
    times = cpu_matmuls.kernel_us(1)
    assert len(times) == len(cpu_matmuls.FORMS)
    assert all(0 < us < math.inf for us in times)


def test_what_is_timed_is_a_dense_layer() -> None:
    check_all(region("g", [cpu_matmuls.dense((20, 24, 20), form) for form in cpu_matmuls.FORMS]), cuda=False)
