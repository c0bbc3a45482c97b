// The windows of an image, channels x height x width, as columns of a matrix: row (channel, y, x) of column
// (out_row, out_column) is the pixel at that place of the window, 0 outside of the image. Any grid and block of one
// dimension.
extern "C" __global__ void im2col(const float* __restrict__ image, float* __restrict__ columns, int channels, int height,
                                  int width, int window, int stride, int padding, int out_height, int out_width) {
  const int count = channels * out_height * out_width;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
    const int column = i % out_width, row = i / out_width % out_height, channel = i / (out_width * out_height);
    const int top = row * stride - padding, left = column * stride - padding;
    const float* plane = image + (long long)channel * height * width;
    float* to = columns + ((long long)channel * window * window * out_height + row) * out_width + column;
    for (int y = 0; y < window; ++y) {
      for (int x = 0; x < window; ++x) {
        const int at_y = top + y, at_x = left + x;
        const bool inside = at_y >= 0 && at_y < height && at_x >= 0 && at_x < width;
        *to = inside ? plane[at_y * width + at_x] : 0.0f;
        to += out_height * out_width;
      }
    }
  }
}
