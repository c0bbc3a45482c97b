"""Mutants of what follows convolutions in a library's calls, and of scales that go into filters."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

FUSED = "tests/ir/test_fused_convolutions.py"
SCALED = "tests/passes/test_scales_into_filters.py"
CHOICE = "tests/passes/choices/test_scales_into_filters.py"
NATIVE = "tests/native/test_cudnn.py"

MUTANTS = (
    Mutant("an addend needs no rectifier behind it", "tf_stitch/ir/fused_convolutions.py",
           "(self.bias is not None and (self.addend is None or rectified))",
           "self.bias is not None",
           (FUSED,)),
    Mutant("a convolution of groups takes over what follows", "tf_stitch/ir/fused_convolutions.py",
           " or attrs.groups > 1 or ",
           " or ",
           (FUSED,)),
    Mutant("what follows is computed without tensor cores", "tf_stitch/libraries/cudnn.py",
           "WITH_EPILOGUES if device.tf32 else EPILOGUES_OF_HALVES",
           "WITH_EPILOGUES",
           ("tests/libraries/test_cudnn.py",)),
    Mutant("a bias of rows is one of channels", "tf_stitch/ir/fused_convolutions.py",
           "operand.type.dims[-1:] == (channels,) and operand.type.numel == channels",
           "operand.type.numel in (channels, value.type.dims[-2])",
           (FUSED,)),
    Mutant("the addend is added behind the bias", "tf_stitch/native/cuda/convolution_graph.cc",
           "    if (spec_.addend) then(kDnnAdd, tensors[kAddend]);\n"
           "    if (spec_.bias) then(kDnnAdd, tensors[kBias]);\n",
           "    if (spec_.bias) then(kDnnAdd, tensors[kBias]);\n"
           "    if (spec_.addend) then(kDnnAdd, tensors[kAddend]);\n",
           (NATIVE,)),
    Mutant("results on the way are rounded", "tf_stitch/native/cuda/convolution_graph.cc",
           "Tensor(inner_++, compute_, ",
           "Tensor(inner_++, type_, ",
           (NATIVE,)),
    Mutant("a bias has the convolution's sizes", "tf_stitch/native/cuda/convolution_graph.cc",
           "    dims.assign(dims.size(), 1);\n",
           "",
           (NATIVE,)),
    Mutant("gradients may have a bias", "tf_stitch/native/cuda/cudnn.cc",
           "spec.bias ? spec.pass != ConvolutionPass::kForward : ",
           "spec.bias ? false : ",
           (NATIVE,)),
    Mutant("an engine for anything computes what follows", "tf_stitch/native/cuda/cudnn.cc",
           "    if (spec_.bias && noted(kDnnStrictNan)) return false;\n",
           "",
           (NATIVE,)),
    Mutant("a shift before the scale is not scaled", "tf_stitch/passes/scales_into_filters.py",
           "                shift = shift and b.mul(shift, operand)\n",
           "",
           (SCALED,)),
    Mutant("an addend before the scale is not scaled", "tf_stitch/passes/scales_into_filters.py",
           "(value.kind is OpKind.MUL and added) or ",
           "",
           (SCALED,)),
    Mutant("what else reads a result gets it scaled", "tf_stitch/passes/scales_into_filters.py",
           "while value not in wanted and len(users[value]) == 1:",
           "while len(users[value]) >= 1:",
           (SCALED,)),
    Mutant("filters are scaled for a kernel that stays", "tf_stitch/passes/scales_into_filters.py",
           "    if not _is_read_by_calls(behind[-1], users, wanted):\n        return False\n",
           "",
           (CHOICE,)),
    Mutant("filters are scaled at any cost", "tf_stitch/passes/scales_into_filters.py",
           "return kernel is not None and _filters_us(scaled.root, times) + times.profile.choices.scale_us < kernel",
           "return kernel is not None",
           (CHOICE,)),
    Mutant("what follows convolutions is free", "tf_stitch/planning/estimate.py",
           "return alone + extra + ",
           "return alone + ",
           ("tests/libraries/test_cudnn.py",)),
)
