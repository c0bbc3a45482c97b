// Bilinear interpolation of an image, planes x height x width, to out_height x out_width. Pixels are squares and values
// their centres': an output pixel's centre lies at (i + 1/2) * size / out_size - 1/2 of the input, not below 0. A thread
// does a pixel of all planes. Any grid and block of one dimension.
struct Between {
  int low, high;
  float share;
};

__device__ Between between(int i, int size, int out_size) {
  const float at = fmaxf(((float)i + 0.5f) * ((float)size / (float)out_size) - 0.5f, 0.0f);
  Between found;
  found.low = min((int)at, size - 1);
  found.high = min(found.low + 1, size - 1);
  found.share = at - (float)found.low;
  return found;
}

extern "C" __global__ void upsample(const float* __restrict__ input, float* __restrict__ output, int planes, int height,
                                    int width, int out_height, int out_width) {
  const int count = out_height * out_width;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
    const Between y = between(i / out_width, height, out_height), x = between(i % out_width, width, out_width);
    for (int plane = 0; plane < planes; ++plane) {
      const float* image = input + (long long)plane * height * width;
      const float above = (1.0f - x.share) * image[y.low * width + x.low] + x.share * image[y.low * width + x.high];
      const float below = (1.0f - x.share) * image[y.high * width + x.low] + x.share * image[y.high * width + x.high];
      output[(long long)plane * count + i] = (1.0f - y.share) * above + y.share * below;
    }
  }
}
