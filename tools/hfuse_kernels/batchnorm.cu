// Mean and variance of each channel of batch x channels x size, by Welford's running moments: threads keep their own,
// warps combine them by shuffles, and the first warp combines the warps'. A block for each channel; any block of two
// dimensions that is of whole warps. The variance is of the population; rstd is 1 / sqrt(variance + epsilon).
struct Moments {
  float mean, squares;
  int count;
};

__device__ Moments combined(Moments a, Moments b) {
  const int count = a.count + b.count;
  const float part = 1.0f / fmaxf(1.0f, (float)count), apart = b.mean - a.mean;
  Moments both;
  both.mean = (a.count * a.mean + b.count * b.mean) * part;
  both.squares = a.squares + b.squares + apart * apart * a.count * b.count * part;
  both.count = count;
  return both;
}

__device__ Moments of_warp(Moments own) {
  for (int mask = 1; mask < 32; mask *= 2) {
    Moments other;
    other.mean = __shfl_xor_sync(0xffffffffu, own.mean, mask);
    other.squares = __shfl_xor_sync(0xffffffffu, own.squares, mask);
    other.count = __shfl_xor_sync(0xffffffffu, own.count, mask);
    own = combined(own, other);
  }
  return own;
}

extern "C" __global__ void batchnorm(const float* __restrict__ input, float* __restrict__ means, float* __restrict__ rstds,
                                     int batch, int channels, int size, float epsilon) {
  __shared__ float mean[32], squares[32];
  __shared__ int count[32];
  const int channel = blockIdx.x;
  const int thread = threadIdx.x + threadIdx.y * blockDim.x, warps = blockDim.x * blockDim.y / 32;
  Moments own = {0.0f, 0.0f, 0};
  for (int image = threadIdx.y; image < batch; image += blockDim.y) {
    const float* values = input + ((long long)image * channels + channel) * size;
    for (int x = threadIdx.x; x < size; x += blockDim.x) {
      const float value = values[x], apart = value - own.mean;
      ++own.count;
      own.mean += apart / own.count;
      own.squares += apart * (value - own.mean);
    }
  }
  own = of_warp(own);
  __syncthreads();
  if (thread % 32 == 0) {
    mean[thread / 32] = own.mean;
    squares[thread / 32] = own.squares;
    count[thread / 32] = own.count;
  }
  __syncthreads();
  if (thread < 32) {
    own.mean = thread < warps ? mean[thread] : 0.0f;
    own.squares = thread < warps ? squares[thread] : 0.0f;
    own.count = thread < warps ? count[thread] : 0;
  }
  own = of_warp(own);
  if (thread == 0) {
    means[channel] = own.mean;
    rstds[channel] = rsqrtf(own.squares / own.count + epsilon);
  }
}
