// What we need of cublasLt.h, loaded with dlopen: preferably the copy that TensorFlow has loaded itself.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/cuda_driver.h"

namespace tf_stitch {

struct LtHandleOpaque;
struct LtDescOpaque;
struct LtLayoutOpaque;
struct LtPreferenceOpaque;
using LtHandle = LtHandleOpaque*;
using LtDesc = LtDescOpaque*;
using LtLayout = LtLayoutOpaque*;
using LtPreference = LtPreferenceOpaque*;

struct LtAlgo {
  std::uint64_t data[8];
};

struct LtHeuristic {
  LtAlgo algo;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

// Its functions, resolved once. `error` is "" if they are all there.
struct LtLibrary {
  std::string error = "not loaded";
  int (*Create)(LtHandle*);
  int (*DescCreate)(LtDesc*, int, int);
  int (*DescDestroy)(LtDesc);
  int (*DescSet)(LtDesc, int, const void*, std::size_t);
  int (*LayoutCreate)(LtLayout*, int, std::uint64_t, std::uint64_t, std::int64_t);
  int (*LayoutSet)(LtLayout, int, const void*, std::size_t);
  int (*LayoutDestroy)(LtLayout);
  int (*PreferenceCreate)(LtPreference*);
  int (*PreferenceDestroy)(LtPreference);
  int (*PreferenceSet)(LtPreference, int, const void*, std::size_t);
  int (*Heuristic)(LtHandle, LtDesc, LtLayout, LtLayout, LtLayout, LtLayout, LtPreference, int, LtHeuristic*, int*);
  int (*AlgoSet)(LtAlgo*, int, const void*, std::size_t);
  int (*AlgoCheck)(LtHandle, LtDesc, LtLayout, LtLayout, LtLayout, LtLayout, const LtAlgo*, LtHeuristic*);
  int (*Matmul)(LtHandle, LtDesc, const void*, const void*, LtLayout, const void*, LtLayout, const void*,
                const void*, LtLayout, void*, LtLayout, const LtAlgo*, void*, std::size_t, CUstream);
};

// `candidates` are files to try after what is already loaded.
LtLibrary LoadLtLibrary(const std::vector<std::string>& candidates);

}  // namespace tf_stitch
