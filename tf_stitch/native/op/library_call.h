// Calls of libraries as steps of an executable: what each kind of them (tf_stitch/libraries) has a file for.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/cuda_driver.h"

namespace tsl::thread {
class ThreadPool;
}

namespace tf_stitch {

// A call ready to run in one context of a GPU. Thread-safe.
class DeviceCall {
 public:
  virtual ~DeviceCall() = default;

  // Enqueues it, by the library's first proposal at first. The first run that is a `trial` tries all of them on these
  // buffers and keeps the fastest, unless TensorFlow has to be deterministic: it waits for the stream. `workspace` has
  // workspace_bytes(). "" or an error.
  virtual std::string Run(CUstream stream, void* const* arguments, void* workspace, bool trial) = 0;

  // Whether its kernel is chosen for good: all runs only enqueue.
  virtual bool settled() const = 0;

  // What its kernel needs; until it is settled, the most that one of the proposals needs.
  virtual std::size_t workspace_bytes() const = 0;
};

// What is known of a call's arguments.
struct CallSite {
  unsigned cold;       // operands that are found in device memory rather than in the cache, as bits
  unsigned unaligned;  // arguments whose addresses are multiples of their elements' size only, as bits; others are of
                       // kCallAlignment
  std::size_t workspace;  // bytes of scratch memory that it may use
  std::size_t ample = 0;  // that it may use for much less time, if that is more
};

constexpr std::uint32_t kCallAlignment = 16;  // bytes: the most that a library's kernel asks of an address

// One call, as Python described it; shared by all runs.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;

  // Operands and, last, the result.
  virtual int arguments() const = 0;

  // Bytes of each argument that a run may touch, INT64_MAX for more than can be counted; empty: the library checks them.
  virtual std::vector<std::int64_t> ArgumentBytes() const { return {}; }

  // "" or why it cannot run here.
  virtual std::string RunOnHost(void* const* arguments, tsl::thread::ThreadPool* workers) const = 0;

  // The call for `context`, shared by all who ask for it; settings as TensorFlow has them now. "" or why there is none:
  // the library is not on this machine, or none of its kernels fits.
  virtual std::string Prepare(CUcontext context, const CallSite& site, std::shared_ptr<DeviceCall>* call) const = 0;
};

// Bytes of scratch memory that the calls of a region may use on a GPU, together, if a run touches `bytes` of memory: a
// part of that, and no more than cuBLAS advises for Hopper. TensorFlow's own matmuls take the library's memory, which
// its allocator does not know. A power of two: regions of about one size share calls.
inline std::size_t CallWorkspaceBytes(std::int64_t bytes) {
  constexpr std::size_t kMost = std::size_t{32} << 20, kLeast = std::size_t{256} << 10;
  constexpr std::int64_t kShare = 32;  // of what a run touches, one part in so many
  std::size_t most = kMost;
  while (most > kLeast && most > static_cast<std::size_t>(bytes / kShare)) most /= 2;
  return most;
}

// The same of a call that takes much less time for it: a larger part, as batches grow, and what a device can spare
// anyway, where TensorFlow's convolutions may take 4 GiB whatever a graph takes. Without it a convolution of 9 x 9 was
// left with a kernel for anything, 7 times as slow: the others put 47 MB of operands in another order first. A twentieth:
// first calls, which try such kernels, take hardly more memory than later ones.
inline std::size_t AmpleWorkspaceBytes(std::int64_t bytes) {
  constexpr std::int64_t kShare = 20;
  constexpr std::size_t kSpare = std::size_t{64} << 20;
  std::size_t most = std::max(CallWorkspaceBytes(bytes), kSpare);
  while (most <= static_cast<std::size_t>(bytes / kShare / 2)) most *= 2;
  return most;
}

}  // namespace tf_stitch
