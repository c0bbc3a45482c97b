// Maximum of windows of an image, planes x height x width, and where in its plane it is. Outside of the image is nothing.
// Any grid of one dimension, any block of one dimension.
extern "C" __global__ void maxpool(const float* __restrict__ input, float* __restrict__ output, int* __restrict__ where,
                                   int planes, int height, int width, int window, int stride, int padding,
                                   int out_height, int out_width) {
  const int count = planes * out_height * out_width;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
    const int column = i % out_width, row = i / out_width % out_height, plane = i / (out_width * out_height);
    const int top = row * stride - padding, left = column * stride - padding;
    const int bottom = min(top + window, height), right = min(left + window, width);
    const float* image = input + (long long)plane * height * width;
    float best = -__int_as_float(0x7f800000);
    int at = max(top, 0) * width + max(left, 0);
    for (int y = max(top, 0); y < bottom; ++y) {
      for (int x = max(left, 0); x < right; ++x) {
        const float value = image[y * width + x];
        if (value > best || value != value) {
          best = value;
          at = y * width + x;
        }
      }
    }
    output[i] = best;
    where[i] = at;
  }
}
