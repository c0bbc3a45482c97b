"""What is read of a padded value: on a GPU the nearest element inside, by whole vectors, where most is inside."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from tests.differential.runner import check_all, compiled, random_values, region
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.walk import statements

B = Builder()


def windows(low: tuple[int, ...], high: tuple[int, ...], stride: int, images: tuple[int, ...] = (2, 8, 7, 8)) -> Node:
    """The largest elements of windows of 3 x 3 in padded images."""
    x = B.input("x:0", DType.F32, images)
    padded = B.pad(x, B.constant(-np.inf, DType.F32), (0, *low, 0), (0, *high, 0))
    counts = [(d - 3) // stride + 1 for d in padded.type.dims[1:3]]
    pieces = (B.slice(padded, (0, i, j, 0), (1, stride, stride, 1), (images[0], *counts, images[3]))
              for i in range(3) for j in range(3))
    return reduce(B.maximum, pieces)


@pytest.mark.parametrize(("low", "high", "stride"), [
    ((1, 1), (1, 1), 1), ((0, 1), (1, 0), 2), ((2, 0), (0, 3), 1), ((0, 0), (3, 2), 2)])
def test_windows(low: tuple[int, ...], high: tuple[int, ...], stride: int) -> None:
    graph = region("g", [windows(low, high, stride)])
    check_all(graph, interpret_cpu=True, interpret_gpu=True, cuda=False)


def test_neither_branches_nor_single_loads() -> None:
    built = compiled(region("g", [windows((1, 1), (1, 1), 1, (32, 56, 56, 64))]), H200)
    found = list(statements(built.kernels[0].program.body))
    assert not [s for s in found if isinstance(s, k.If)]
    assert sum(isinstance(s, k.LoadVector) for s in found) == 9


def test_what_is_surely_inside_is_not_asked_for() -> None:
    """Windows of 2 in steps of 2 never reach what is padded behind."""
    x = B.input("x:0", DType.F32, (32, 56, 64))
    padded = B.pad(x, B.constant(0, DType.F32), (0, 0, 0), (0, 1, 0))
    graph = region("g", [B.slice(padded, (0, 0, 0), (1, 2, 1), (32, 28, 64))])
    built = compiled(graph, H200)
    assert "InRange" not in repr(built.kernels[0].program.body)


def test_little_of_a_large_tensor_is_not_read_where_it_is_not() -> None:
    x = B.input("x:0", DType.F32, (4, 8))
    graph = region("g", [B.exp(B.pad(x, B.constant(0, DType.F32), (3, 0), (93, 0)))])
    check_all(graph, random_values(graph), interpret_gpu=True, cuda=False)
    found = statements(compiled(graph, H200).kernels[0].program.body)
    assert any(isinstance(s, k.If) for s in found)
