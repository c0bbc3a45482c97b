// How many values lie in each of `bins` equal parts of [least, most]; those outside do not count. Blocks count in dynamic
// shared memory, 4 * bins bytes. Any grid and block of one dimension; `counts` is added to.
extern "C" __global__ void hist(const float* __restrict__ values, int* __restrict__ counts, int count, int bins, float least,
                                float most) {
  extern __shared__ int own[];
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) own[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
    const float value = values[i];
    if (value >= least && value <= most) {
      const int bin = (int)((value - least) / (most - least) * (float)bins);
      atomicAdd(&own[min(bin, bins - 1)], 1);
    }
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) atomicAdd(&counts[bin], own[bin]);
}
