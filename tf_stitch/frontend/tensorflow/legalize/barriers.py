"""Ops that stay TensorFlow ops by design, and the reason the user reads."""

from tf_stitch.frontend.tensorflow.registry import barrier
from tf_stitch.frontend.tensorflow.variable_ops import VARIABLES

barrier("{op} is a library call",
        "SparseMatMul", "_MklMatMul", "_FusedConv3D", "CudnnRNN", "CudnnRNNV2",
        "CudnnRNNV3", "CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3", "FFT", "IFFT", "RFFT", "IRFFT",
        "FFT2D", "IFFT2D", "Cholesky", "MatrixInverse", "Svd", "Qr")
barrier("{op} is made by TensorFlow for a library call that does an activation along", "_FusedBatchNormGradEx")
barrier("{op} is a pooling library call", "MaxPoolWithArgmax", "MaxPoolGradGrad")
barrier("{op} bounds a branch or a loop",
        "Enter", "Exit", "Merge", "Switch", "NextIteration", "LoopCond", "RefEnter", "RefExit", "RefMerge", "RefSwitch",
        "RefNextIteration", "If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase")
barrier("{op} calls a function",
        "PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient", "RemoteCall", "XlaLaunch", "MapDefun",
        "PyFunc", "EagerPyFunc", "PyFuncStateless")
barrier("{op} draws random numbers",
        "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "RandomShuffle", "Multinomial",
        "RandomGamma", "StatelessRandomUniform", "StatelessRandomUniformFullIntV2",
        "StatelessRandomUniformInt", "StatelessRandomNormal",
        "StatelessTruncatedNormal", "StatelessTruncatedNormalV2",
        "StatelessRandomGetAlg", "StatelessRandomGetKeyCounterAlg", "RngReadAndSkip", "RngSkip", "StatefulUniform",
        "StatefulStandardNormalV2", "StatefulUniformFullInt", "StatefulUniformInt", "StatefulTruncatedNormal")
barrier("{op} is a reference variable", "Variable", "VariableV2", "Assign", "AssignAdd", "AssignSub",
        "TemporaryVariable", "ApplyGradientDescent", "ApplyMomentum", "ApplyAdam", "ApplyAdagrad", "ApplyRMSProp")
barrier("{op} scatters to a reference variable", "ScatterAdd")
barrier("{op} updates a variable row by row, a row that occurs twice two times", "ResourceSparseApplyAdagrad",
        "ResourceSparseApplyAdagradV2", "ResourceSparseApplyMomentum", "ResourceSparseApplyKerasMomentum",
        "ResourceSparseApplyFtrl", "ResourceSparseApplyFtrlV2", "ResourceSparseApplyRMSProp",
        "ResourceSparseApplyAdadelta", "ResourceSparseApplyProximalAdagrad")
barrier("{op} has as many rows as its values say", "SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin",
        "SegmentProd", "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSumGrad",
        "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad", "DynamicStitch", "DynamicPartition", "Unique", "UniqueV2",
        "UniqueWithCounts", "UniqueWithCountsV2", "Where")
barrier("{op} keeps a list of tensors",
        "TensorListPushBack", "TensorListPopBack", "EmptyTensorList", "TensorListFromTensor", "TensorListGetItem",
        "TensorListSetItem", "TensorListReserve", "TensorListStack", "TensorListElementShape", "TensorListLength",
        "TensorListConcatV2", "TensorListGather", "TensorListResize")
barrier("{op} checks values at run time", "CheckNumerics", "Assert", "CheckNumericsV2")
barrier("{op} is where values enter or leave the graph", "Placeholder", "PlaceholderWithDefault", "_Arg", "_Retval",
        "_DeviceArg", "_DeviceRetval", *VARIABLES, "_HostSend", "_HostRecv", "_Send", "_Recv")
barrier("{op} groups control edges", "NoOp")
barrier("{op} is a loop that runs as one op", "StitchWhile")
