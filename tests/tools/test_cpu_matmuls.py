"""Matmuls that are timed on one core."""

from __future__ import annotations

import math

import pytest

from tests.differential.runner import check_all, region
from tools.benchmark import cpu_matmul_cases as cases


def test_kernels_of_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "SIZES", ((20, 24, 20),))
    times = cases.kernel_us(1)
    assert len(times) == len(cases.FORMS)
    assert all(0 < us < math.inf for us in times)


def test_what_is_timed_is_a_dense_layer() -> None:
    for form in cases.FORMS:
        check_all(region("g", [cases.dense((20, 24, 20), form)]), cuda=False)
