// What both programs need on the host: files, memory of the device, and medians of times.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#define CHECK(call)                                                                             \
  do {                                                                                          \
    cudaError_t status = (call);                                                                \
    if (status != cudaSuccess) {                                                                \
      std::fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
      std::exit(1);                                                                             \
    }                                                                                           \
  } while (0)

inline std::vector<float> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) std::fprintf(stderr, "no %s\n", path.c_str()), std::exit(1);
  std::vector<float> values(size_t(file.tellg()) / 4);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), std::streamsize(values.size() * 4));
  return values;
}

template <class T>
T* device(size_t count, const T* from = nullptr) {
  T* memory;
  CHECK(cudaMalloc(&memory, count * sizeof(T)));
  CHECK(cudaMemset(memory, 0, count * sizeof(T)));
  if (from) CHECK(cudaMemcpy(memory, from, count * sizeof(T), cudaMemcpyHostToDevice));
  return memory;
}


template <class T>
void write(const std::string& path, const T* values, size_t count) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values), std::streamsize(count * sizeof(T)));
}

// Copies an array from the device.
template <class T>
std::vector<T> fetched(const T* memory, size_t count) {
  std::vector<T> values(count);
  CHECK(cudaMemcpy(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

// Microseconds between two events of a stream.
class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    CHECK(cudaEventCreate(&begin_));
    CHECK(cudaEventCreate(&end_));
  }
  void begin() { CHECK(cudaEventRecord(begin_, stream_)); }
  float end() {
    CHECK(cudaEventRecord(end_, stream_));
    CHECK(cudaEventSynchronize(end_));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, begin_, end_));
    return ms * 1000.0f;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_, end_;
};

// The median and the quartiles, and what follows them in a row.
inline void print_times(const std::string& name, std::vector<float> times) {
  std::sort(times.begin(), times.end());
  std::printf("%s,%.2f,%.2f,%.2f", name.c_str(), times[times.size() / 2], times[times.size() / 4],
              times[times.size() * 3 / 4]);
}
