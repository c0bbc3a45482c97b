"""Random kernels without races: barriers, shuffles, shared memory, early returns, helpers, blocks of two dimensions."""

from __future__ import annotations

import random

import numpy as np

from tests.hfuse.sources import Case
from tests.support.handwritten_on_cpu import Argument
from tf_stitch.hfuse.launch import Shape

BLOCKS = [(32, 1, 1), (64, 1, 1), (16, 6, 1), (8, 4, 2), (96, 1, 1), (128, 1, 1), (4, 16, 3)]
GRIDS = [(1, 1, 1), (5, 1, 1), (3, 2, 1), (2, 2, 2), (7, 1, 1)]


def random_kernel(seed: int) -> Case:
    """A kernel of few statements, over arrays of as many elements as it has threads."""
    draw = random.Random(seed)
    block, grid = draw.choice(BLOCKS), draw.choice(GRIDS)
    threads, blocks = block[0] * block[1] * block[2], grid[0] * grid[1] * grid[2]
    early = draw.random() < 0.4
    dynamic = draw.random() < 0.5
    body = [_step(draw, threads, not early) for _ in range(draw.randint(2, 6))]
    leave = "if (at >= n) return;" if early else "if (at >= n) v = 1;"
    memory = "extern __shared__ float s[];" if dynamic else f"__shared__ float s[{threads}];"
    text = f"""
__device__ int number() {{ return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }}
__device__ float summed(float v, float* s, int by) {{
  const int me = number(), all = blockDim.x * blockDim.y * blockDim.z;
  __syncthreads();
  s[me] = v;
  __syncthreads();
  return v * 0.5f + s[(me + by) % all];
}}
__global__ void random_{seed}(const float* x, float* y, int n) {{
  {memory}
  const int me = number(), block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const int at = block * {threads} + me;
  float v = x[at];
  s[me] = 0;
  __syncthreads();
  {leave}
  {"".join(body)}
  y[at] = v;
}}
"""
    count = threads * blocks
    present = draw.randint(count // 2, count)

    def arguments(values: int) -> list[Argument]:
        made = np.random.default_rng(values).normal(size=count).astype(np.float32)
        return [made, np.zeros(count, np.float32), present]

    return Case(text, f"random_{seed}", Shape(block, grid, 4 * threads if dynamic else 0), arguments)


def _step(draw: random.Random, threads: int, whole: bool) -> str:
    """Statements that change v; shuffles only where all threads of the block are there."""
    by, loops = draw.randint(1, threads - 1), draw.randint(2, 4)
    steps = [f"v = v * {draw.uniform(-1, 1):.3f}f + {draw.uniform(-1, 1):.3f}f;\n  ",
             f"v = summed(v, s, {by});\n  ",
             f"for (int i = 0; i < {loops}; ++i) {{ __syncthreads(); s[me] = v; __syncthreads(); "
             f"v = v - 0.25f * s[(me + {by} + i) % {threads}]; }}\n  "]
    shuffles = [f"v += 0.5f * __shfl_xor_sync(0xffffffffu, v, {1 << draw.randint(0, 4)});\n  ",
                f"v = 0.75f * __shfl_sync(0xffffffffu, v, {draw.randint(0, 31)}) + v;\n  ",
                "v += 0.125f * __syncthreads_count(v > 0);\n  "]
    return draw.choice(steps + shuffles if whole else steps)
