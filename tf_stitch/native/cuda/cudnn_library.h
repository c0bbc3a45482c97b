// What we need of cudnn_graph.h (cuDNN 9), loaded with dlopen: preferably the copy that TensorFlow has loaded itself.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/cuda_driver.h"

namespace tf_stitch {

struct DnnHandleOpaque;
using DnnHandle = DnnHandleOpaque*;
using DnnDescriptor = void*;

// cudnnBackendDescriptorType_t.
enum {
  kDnnConvolution = 1,
  kDnnEngine = 2,
  kDnnEngineConfig = 3,
  kDnnHeuristics = 4,
  kDnnPlan = 5,
  kDnnForward = 10,
  kDnnFilterGrad = 11,
  kDnnInputGrad = 12,
  kDnnGraph = 15,
  kDnnVariantPack = 16,
  kDnnTensor = 17,
};

// cudnnBackendAttributeType_t.
enum {
  kDnnIsHandle = 0,
  kDnnIsDataType = 1,
  kDnnIsInt64 = 3,
  kDnnIsFloat = 4,
  kDnnIsDouble = 5,
  kDnnIsPointer = 6,
  kDnnIsConvolutionMode = 7,
  kDnnIsHeuristicMode = 8,
  kDnnIsNumericalNote = 11,
  kDnnIsDescriptor = 15,
  kDnnIsBehaviorNote = 19,
};

// cudnnBackendAttributeName_t.
enum {
  kDnnConvolutionComputeType = 100,
  kDnnConvolutionMode = 101,
  kDnnConvolutionDilations = 102,
  kDnnConvolutionStrides = 103,
  kDnnConvolutionPostPaddings = 104,
  kDnnConvolutionPrePaddings = 105,
  kDnnConvolutionSpatialDims = 106,
  kDnnHeuristicsMode = 200,
  kDnnHeuristicsGraph = 201,
  kDnnHeuristicsResults = 202,
  kDnnConfigEngine = 300,
  kDnnPlanHandle = 400,
  kDnnPlanConfig = 401,
  kDnnPlanWorkspace = 402,
  kDnnForwardAlpha = 700,  // then beta, the convolution, w, x, y
  kDnnInputGradAlpha = 706,  // then beta, the convolution, w, dx, dy
  kDnnFilterGradAlpha = 712,  // then beta, the convolution, dw, x, dy
  kDnnGraphHandle = 800,
  kDnnGraphOperations = 801,
  kDnnTensorAlignment = 900,
  kDnnTensorDataType = 901,
  kDnnTensorDims = 902,
  kDnnTensorStrides = 903,
  kDnnTensorId = 906,
  kDnnVariantIds = 1000,
  kDnnVariantPointers = 1001,
  kDnnVariantWorkspace = 1003,
  kDnnEngineNumericalNotes = 1303,
  kDnnEngineBehaviorNotes = 1305,
};

// cudnnDataType_t, cudnnConvolutionMode_t, cudnnBackendHeurMode_t, cudnnBackendNumericalNote_t,
// cudnnBackendBehaviorNote_t.
enum { kDnnFloat = 0, kDnnDouble = 1, kDnnHalf = 2, kDnnBfloat16 = 9 };
enum { kDnnCrossCorrelation = 1 };
enum { kDnnModeFallback = 2, kDnnModeA = 3 };
enum { kDnnTensorCore = 0, kDnnDownConvertsInputs = 1, kDnnNondeterministic = 4, kDnnNumericalNotes = 10 };
enum { kDnnCompiledAtRunTime = 0, kDnnBehaviorNotes = 5 };

// Its functions, resolved once. `error` is "" if they are all there.
struct DnnLibrary {
  std::string error = "not loaded";
  std::size_t (*GetVersion)();
  int (*Create)(DnnHandle*);
  int (*SetStream)(DnnHandle, CUstream);
  int (*CreateDescriptor)(int type, DnnDescriptor*);
  int (*DestroyDescriptor)(DnnDescriptor);
  int (*Finalize)(DnnDescriptor);
  int (*SetAttribute)(DnnDescriptor, int name, int type, std::int64_t count, const void*);
  int (*GetAttribute)(DnnDescriptor, int name, int type, std::int64_t room, std::int64_t* count, void*);
  int (*Execute)(DnnHandle, DnnDescriptor plan, DnnDescriptor pack);
};

// `candidates` are files to try after what is already loaded.
DnnLibrary LoadDnnLibrary(const std::vector<std::string>& candidates);

}  // namespace tf_stitch
