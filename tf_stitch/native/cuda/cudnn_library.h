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
  kDnnPointwise = 0,
  kDnnConvolution = 1,
  kDnnEngine = 2,
  kDnnEngineConfig = 3,
  kDnnHeuristics = 4,
  kDnnPlan = 5,
  kDnnForward = 10,
  kDnnFilterGrad = 11,
  kDnnInputGrad = 12,
  kDnnPointwiseOp = 13,
  kDnnGraph = 15,
  kDnnVariantPack = 16,
  kDnnTensor = 17,
  kDnnMatmul = 18,
  kDnnMatmulOp = 19,
  kDnnReduction = 21,
  kDnnReductionOp = 22,
  kDnnReshapeOp = 31,
};

// cudnnBackendAttributeType_t.
enum {
  kDnnIsHandle = 0,
  kDnnIsDataType = 1,
  kDnnIsBoolean = 2,
  kDnnIsInt64 = 3,
  kDnnIsFloat = 4,
  kDnnIsDouble = 5,
  kDnnIsPointer = 6,
  kDnnIsConvolutionMode = 7,
  kDnnIsHeuristicMode = 8,
  kDnnIsNumericalNote = 11,
  kDnnIsPointwiseMode = 14,
  kDnnIsDescriptor = 15,
  kDnnIsReductionOperator = 18,
  kDnnIsBehaviorNote = 19,
};

// cudnnBackendAttributeName_t.
enum {
  kDnnPointwiseMode = 0,
  kDnnPointwiseComputeType = 1,
  kDnnPointwiseAxis = 9,
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
  kDnnPointwiseDescriptor = 750,
  kDnnPointwiseX = 751,
  kDnnPointwiseB = 752,
  kDnnPointwiseY = 753,
  kDnnPointwiseT = 758,
  kDnnGraphHandle = 800,
  kDnnGraphOperations = 801,
  kDnnTensorAlignment = 900,
  kDnnTensorDataType = 901,
  kDnnTensorDims = 902,
  kDnnTensorStrides = 903,
  kDnnTensorId = 906,
  kDnnTensorIsVirtual = 907,
  kDnnTensorIsByValue = 908,
  kDnnVariantIds = 1000,
  kDnnVariantPointers = 1001,
  kDnnVariantWorkspace = 1003,
  kDnnEngineNumericalNotes = 1303,
  kDnnEngineBehaviorNotes = 1305,
  kDnnMatmulComputeType = 1500,
  kDnnMatmulA = 1520,  // then b, c, the descriptor
  kDnnReductionOperator = 1600,
  kDnnReductionComputeType = 1601,
  kDnnReductionX = 1610,  // then y, the descriptor
  kDnnReshapeX = 2200,  // then y
};

// cudnnDataType_t, cudnnConvolutionMode_t, cudnnBackendHeurMode_t, cudnnBackendNumericalNote_t,
// cudnnBackendBehaviorNote_t.
enum { kDnnFloat = 0, kDnnDouble = 1, kDnnHalf = 2, kDnnInt32 = 4, kDnnBfloat16 = 9, kDnnBoolean = 11 };
enum { kDnnCrossCorrelation = 1 };
enum { kDnnModeFallback = 2, kDnnModeA = 3 };
enum { kDnnTensorCore = 0, kDnnDownConvertsInputs = 1, kDnnNondeterministic = 4 };
enum { kDnnStrictNan = 9, kDnnNumericalNotes = 10 };
enum { kDnnCompiledAtRunTime = 0, kDnnBehaviorNotes = 5 };

// cudnnPointwiseMode_t, cudnnReduceTensorOp_t.
enum {
  kDnnAdd = 0,
  kDnnMul = 1,
  kDnnDiv = 6,
  kDnnSub = 9,
  kDnnExp = 13,
  kDnnLog = 15,
  kDnnIdentity = 21,
  kDnnRelu = 100,
  kDnnNotLess = 303,
  kDnnIndex = 501,
  kDnnSelect = 601,
};
enum { kDnnSum = 0, kDnnMaximum = 3 };

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
