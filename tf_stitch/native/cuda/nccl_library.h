// What we need of nccl.h (NCCL 2), loaded with dlopen: preferably the copy that TensorFlow has loaded itself.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "cuda/cuda_driver.h"

namespace tf_stitch {

using NcclComm = struct NcclCommOpaque*;

// ncclDataType_t, ncclRedOp_t.
enum { kNcclInt64 = 4, kNcclHalf = 6, kNcclFloat = 7, kNcclDouble = 8, kNcclBfloat16 = 9 };
enum { kNcclSum = 0 };

// Its functions, resolved once. `error` is "" if they are all there.
struct NcclLibrary {
  std::string error = "not loaded";
  int (*CommInitAll)(NcclComm*, int count, const int* devices);
  int (*GroupStart)();
  int (*GroupEnd)();
  int (*AllReduce)(const void* from, void* to, std::size_t count, int type, int operation, NcclComm, CUstream);
  const char* (*GetErrorString)(int);
};

// Loads it for the process, the first time. `candidates` are files to try after what is already loaded. Why there is
// none, "" if there is.
const std::string& LoadNccl(const std::vector<std::string>& candidates);

// What LoadNccl has loaded.
const NcclLibrary& Nccl();

// What one GPU gives to a sum over several, and where it gets the sum.
struct NcclPart {
  CUdevice device;
  CUstream stream;
  const void* from;
  void* to;
};

// Gives the streams of several GPUs of this process the sum of their parts to compute; nobody waits. Communicators stay
// for the life of the process. Sums that share a GPU are given to all streams in one order. "" or what failed.
std::string SumOverGpus(const std::vector<NcclPart>& parts, std::size_t count, int type);

}  // namespace tf_stitch
