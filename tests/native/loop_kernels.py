"""Loops of hand-written kernels: one that counts, and one that sums rows up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tests.native.conftest import INPUT, OUTPUT, Regions, executable, launch, shapes_of
from tests.native.loops import Array, Loop, LoopRegions, Words, carried, element, expected, fixed, last, stack

Symbols: TypeAlias = Callable[[str], int]
I32 = np.int32
KERNELS = """
#include <time.h>
int less(const tfs_env* env, void* const* a) { *(uint8_t*)a[2] = *(int*)a[0] < *(int*)a[1]; return 0; }
int not(const tfs_env* env, void* const* a) { *(uint8_t*)a[1] = !*(uint8_t*)a[0]; return 0; }
int always(const tfs_env* env, void* const* a) { *(uint8_t*)a[0] = 1; return 0; }
int next(const tfs_env* env, void* const* a) { *(int*)a[1] = *(int*)a[0] + 1; return 0; }
int slow_next(const tfs_env* env, void* const* a) {
  struct timespec t = {0, 300000}; nanosleep(&t, 0); return next(env, a); }
int count_to(const tfs_env* env, void* const* a) {  // n, end -> n + 1, whether that is the end
  *(int64_t*)a[2] = *(int64_t*)a[0] + 1; *(uint8_t*)a[3] = *(int64_t*)a[2] == *(int64_t*)a[1]; return 0; }
int set_at(const tfs_env* env, void* const* a) {  // i, x: x[i] = i + 1
  int i = *(int*)a[0]; ((int*)a[1])[i] = i + 1; return 0; }
int mix(const tfs_env* env, void* const* a) {  // x, y, z, sizes: items, constant
  const int64_t* sizes = a[3];
  for (int64_t i = 0; i < sizes[0]; i++) {
    ((uint32_t*)a[2])[i] = 5 * ((uint32_t*)a[0])[i] + 3 * ((uint32_t*)a[1])[i] + (uint32_t)sizes[1];
  }
  return 0;
}
int broken(const tfs_env* env, void* const* a) { return 7; }
"""


def items(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def less(kernel: Symbols) -> Words:
    """Words of a condition: input 0 < input 1."""
    return lambda key: executable([[]], [launch(kernel("less"), (INPUT, 0), (INPUT, 1), (OUTPUT, 0))])


def counting(kernel: Symbols, name: str = "next") -> Words:
    """Words of a body: input 0 + 1."""
    return lambda key: executable([[]], [launch(kernel(name), (INPUT, 0), (OUTPUT, 0))])


COUNT = Loop((carried(0, 0),), (carried(0, 0), fixed(1)), (last(0, 0),))
"""Inputs i, n; counts i to n."""
SUM = Loop((carried(0, 0), carried(2, 1), element(3)), (carried(0, 0), fixed(1)),
           (last(0, 0), last(2, 1), stack(1), stack(1, 4, 1)))
"""Inputs i, n, x, rows, the number of rows; x = 5 x + 3 row + 1."""


def summing(kernel: Symbols) -> Words:
    def words(key: tuple[int, ...]) -> list[int]:
        _, x, row, *_ = shapes_of(key)
        return executable([[], x], [
            launch(kernel("next"), (INPUT, 0), (OUTPUT, 0)),
            launch(kernel("mix"), (INPUT, 1), (INPUT, 2), (OUTPUT, 1), sizes=[items(row), 1])])

    return words


def sum_loop(regions: Regions, kernel: Symbols, roles: Loop = SUM, **whole: Any) -> LoopRegions:
    return LoopRegions(regions, roles, [tf.int32] * 2, less(kernel), summing(kernel), **whole)


def sums(i: Array, x: Array, row: Array) -> list[Array]:
    with np.errstate(over="ignore"):
        return [np.asarray(i + 1), 5 * x + 3 * row + 1]


def sum_inputs(rows: int, width: Sequence[int], n: int, start: int = 0) -> list[Array]:
    draw = np.random.default_rng(rows)
    return [np.array(start, I32), np.array(start + n, I32), draw.integers(0, 100, width, I32),
            draw.integers(0, 100, (rows, *width), I32), np.array(rows, I32)]


def check_sum(loop: LoopRegions, inputs: Sequence[Array]) -> None:
    results = loop(*inputs, types=[tf.int32] * len(loop.roles.outputs))
    wanted = expected(loop.roles, inputs, sums, lambda i, n: bool(i < n))
    for result, value in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, value, strict=True)
