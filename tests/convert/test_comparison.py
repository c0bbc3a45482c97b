from __future__ import annotations

import numpy as np
import pytest

from tf_stitch.convert.comparison import BOUNDS, compare


@pytest.mark.parametrize(("kind", "off"), [("float32", 1e-3), ("float64", 1e-8), ("float16", 0.1)])
def test_each_type_has_its_bound(kind: str, off: float) -> None:
    expected = np.ones(8, kind)
    assert compare("y", expected, expected, 1.0).passes
    assert not compare("y", expected, (expected * (1 + off)).astype(kind), 1.0).passes
    assert compare("y", expected, (expected * (1 + off)).astype(kind), 2 * off / BOUNDS[kind]).passes


def test_integers_strings_and_what_is_not_finite_are_equal_or_not() -> None:
    assert not compare("y", np.array([1, 2]), np.array([1, 3]), 1e9).passes
    assert compare("y", np.array([b"a"], object), np.array([b"a"], object), 1.0).passes
    odd = np.array([np.nan, np.inf, 1.0])
    assert compare("y", odd, odd.copy(), 1.0).passes
    assert not compare("y", odd, np.array([np.nan, -np.inf, 1.0]), 1e9).passes
    assert not compare("y", np.array([1.0, 1.0]), np.array([1.0, np.nan]), 1e9).passes


def test_shapes_and_types_are_compared() -> None:
    assert not compare("y", np.zeros(3), np.zeros((3, 1)), 1e9).passes
    assert not compare("y", np.zeros(3), np.zeros(3, np.float32), 1e9).passes


def test_zeros_have_a_scale() -> None:
    assert compare("y", np.zeros(4, np.float32), np.full(4, 1e-30, np.float32), 1.0).passes
    assert not compare("y", np.zeros(4, np.float32), np.full(4, 1e-6, np.float32), 1.0).passes


def test_in_tf32_matmuls_are_less_exact() -> None:
    expected = np.ones(4, np.float32)
    for off, plain, tf32 in ((5e-5, True, True), (2e-3, False, True), (1e-2, False, False)):
        found = (expected * (1 + off)).astype(np.float32)
        assert compare("y", expected, found, 1.0).passes is plain
        assert compare("y", expected, found, 1.0, tf32=True).passes is tf32
