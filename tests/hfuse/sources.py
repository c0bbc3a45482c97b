"""Kernels with what fusing has to see to: barriers, shared memory, returns, helpers, templates, equal names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from tests.support.handwritten_on_cpu import Argument, kernel_of
from tf_stitch.hfuse.launch import Shape
from tf_stitch.hfuse.source import Kernel

Arrays = list[np.ndarray]  # type: ignore[type-arg]


@dataclass(frozen=True)
class Case:
    """A kernel, its launch, and what it is given, by a seed.

    Attributes:
        expected: what its arrays hold then, by NumPy.
    """

    text: str
    name: str
    shape: Shape
    arguments: Callable[[int], list[Argument]]
    expected: Callable[[list[Argument]], Arrays] | None = None

    def kernel(self) -> Kernel:
        return _parsed(self.text, self.name)


@cache
def _parsed(text: str, name: str) -> Kernel:
    return kernel_of(text, name)


def floats(seed: int, *shape: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


PLAIN = Case("""
extern "C" __global__ void scale(const float* __restrict__ x, float* y, float by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * by;
}
""", "scale", Shape((96, 1, 1), (7, 1, 1)),
    lambda seed: [floats(seed, 650), np.zeros(650, np.float32), 1.5, 650])

REDUCE = Case("""
__global__ void __launch_bounds__(64) sums(const float* x, float* y, int n) {
  extern __shared__ float s[];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += x[i];
  s[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned int half = blockDim.x / 2; half; half /= 2) {
    if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
""", "sums", Shape((64, 1, 1), (5, 1, 1), 256), lambda seed: [floats(seed, 1000), np.zeros(5, np.float32), 1000])


def _reversed(arguments: list[Argument]) -> Arrays:
    x, y, n = arguments
    assert isinstance(x, np.ndarray)
    assert isinstance(y, np.ndarray)
    assert isinstance(n, int)
    want = y.copy()
    for block in range(4):
        present = min(64, n - block * 64)
        for i in range(max(present, 0)):
            other = 63 - i if 63 - i < present else i
            want[block * 64 + i] = x[block * 64 + other] + x[block * 64 + i]
    return [x, want]


EARLY = Case("""
__global__ void mirror(const float* x, float* y, int n) {
  __shared__ float s[64];
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int present = min(64, n - (int)(blockIdx.x * blockDim.x));
  s[threadIdx.x] = x[i];
  __syncthreads();
  const int other = 63 - (int)threadIdx.x < present ? 63 - threadIdx.x : threadIdx.x;
  const float theirs = s[other];
  __syncthreads();
  s[threadIdx.x] = theirs + x[i];
  __syncthreads();
  y[i] = s[threadIdx.x];
}
""", "mirror", Shape((64, 1, 1), (4, 1, 1)),
    lambda seed: [floats(seed, 256), np.zeros(256, np.float32), 205], _reversed)

GRID_2D = Case("""
__global__ void turn(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[8][9];
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
  __syncthreads();
  const int to_row = blockIdx.x * blockDim.x + threadIdx.y, to_column = blockIdx.y * blockDim.y + threadIdx.x;
  if (to_row < columns && to_column < rows) y[to_row * rows + to_column] = tile[threadIdx.x][threadIdx.y] + gridDim.y;
}
""", "turn", Shape((8, 8, 1), (3, 2, 1)), lambda seed: [floats(seed, 13, 20), np.zeros((20, 13), np.float32), 13, 20])

HELPED = Case("""
struct Range { int first, last; };
__constant__ float weights[2] = {0.5f, 2.0f};
__device__ float total(float value, float* s) {
  s[threadIdx.x] = value;
  __syncthreads();
  float sum = 0;
  for (unsigned int i = 0; i < blockDim.x; ++i) sum += s[i] * weights[i % 2];
  __syncthreads();
  return sum;
}
namespace inner {
__global__ void centred(const float* x, float* y, Range range) {
  __shared__ float s[32];
  const int i = range.first + blockIdx.x * blockDim.x + threadIdx.x;
  auto value = [&](int at) { return at < range.last ? x[at] : 0.0f; };
  const float mean = total(value(i), s) / blockDim.x;
  const float spread = total((value(i) - mean) * (value(i) - mean), s);
  if (i < range.last) y[i] = (value(i) - mean) / (1 + spread);
}
}
__global__ void another(float* y) { y[threadIdx.x] = 1; __syncthreads(); }
""", "inner::centred", Shape((32, 1, 1), (6, 1, 1)),
    lambda seed: [floats(seed, 192), np.zeros(192, np.float32), 3 + (180 << 32)])

NAMES = Case("""
struct Range { float by; };
__device__ float total(float value, float* s) { return value * 3 + s[threadIdx.x]; }
__device__ int max(Range a, Range b) { return a.by < b.by; }
__global__ void centred(const float* x, float* y, Range range) {
  __shared__ float s[96];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[(threadIdx.x + 1) % blockDim.x] = x[i] * range.by;
  __syncthreads();
  y[i] = total(max(x[i], 0.25f), s) + max(range, range);
}
""", "centred", Shape((96, 1, 1), (2, 1, 1)), lambda seed: [floats(seed, 192), np.zeros(192, np.float32), 1.25])

SHUFFLED = Case("""
__global__ void warps(const float* x, float* y, int n) {
  if (blockIdx.x * blockDim.x >= n) return;
  __shared__ float s[4];
  const int tid = threadIdx.x + threadIdx.y * blockDim.x;
  float sum = x[blockIdx.x * 128 + tid];
  for (int mask = 16; mask; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
  if (tid % 32 == 0) s[tid / 32] = sum;
  __syncthreads();
  y[blockIdx.x * 128 + tid] = s[0] + s[1] + s[2] + s[3] + __shfl_down_sync(~0u, sum, tid % 32 < 16 ? 1 : 2);
}
""", "warps", Shape((16, 8, 1), (3, 1, 1)), lambda seed: [floats(seed, 384), np.zeros(384, np.float32), 384])

TEMPLATE = Case("""
template <typename T, int Size> struct Store { T values[Size]; };
template <typename T, int Size>
__global__ void rotate(const T* x, T* y) {
  __shared__ Store<T, Size> store;
  store.values[threadIdx.x] = x[blockIdx.x * Size + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * Size + threadIdx.x] = store.values[(threadIdx.x + 1) % Size] * gridDim.x;
}
""", "rotate<float, 64>", Shape((64, 1, 1), (3, 1, 1)), lambda seed: [floats(seed, 192), np.zeros(192, np.float32)])

COUNTED = Case("""
__global__ void positive(const float* x, int* y) {
  const float own = x[blockIdx.x * blockDim.x + threadIdx.x];
  const int count = __syncthreads_count(own > 0);
  const int all = __syncthreads_and(own > -2), any = __syncthreads_or(own > 2);
  y[blockIdx.x * blockDim.x + threadIdx.x] = 4 * count + 2 * all + any;
}
""", "positive", Shape((64, 1, 1), (4, 1, 1)), lambda seed: [floats(seed, 256), np.zeros(256, np.int32)])

TUNABLE = Case("""
__global__ void strided(const int* x, int* bins, int n) {
  extern __shared__ int own[];
  for (int i = threadIdx.x; i < 10; i += blockDim.x) own[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&own[x[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 10; i += blockDim.x) atomicAdd(&bins[i], own[i]);
}
""", "strided", Shape((128, 1, 1), (3, 1, 1), 40),
    lambda seed: [np.random.default_rng(seed).integers(0, 10, 900, np.int32), np.zeros(10, np.int32), 900])
