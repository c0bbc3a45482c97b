// TensorFlow's REGISTER_OP and REGISTER_KERNEL_BUILDER, for the copy of this library that comes first (op/first_copy.h).
#pragma once
#include "op/first_copy.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

struct OpRegistration {
  template <typename Builder>
  bool operator<<(Builder&& builder) const {
    if (IsFirstCopy()) builder();
    return true;
  }
};

inline bool RegisterKernel(const tensorflow::KernelDef* kernel, const char* name,
                           tensorflow::OpKernel* (*make)(tensorflow::OpKernelConstruction*)) {
  tensorflow::kernel_factory::OpKernelRegistrar(kernel, name, make);  // which owns the first
  return true;
}

}  // namespace tf_stitch

#define TFS_UNIQUE_2(name, number) name##number
#define TFS_UNIQUE(name, number) TFS_UNIQUE_2(name, number)

// As REGISTER_OP: .Input(...) and the like follow.
#define TFS_REGISTER_OP(name)                                                             \
  [[maybe_unused]] static const bool TFS_UNIQUE(tfs_registered_op_, __COUNTER__) =        \
      ::tf_stitch::OpRegistration() << ::tensorflow::register_op::OpDefBuilderWrapper(name)

// As REGISTER_KERNEL_BUILDER, of Name(...).
#define TFS_REGISTER_KERNEL(builder, kernel)                                                   \
  [[maybe_unused]] static const bool TFS_UNIQUE(tfs_registered_kernel_, __COUNTER__) =         \
      ::tf_stitch::IsFirstCopy() &&                                                            \
      ::tf_stitch::RegisterKernel(                                                             \
          ::tensorflow::register_kernel::builder.Build(), #kernel,                             \
          [](::tensorflow::OpKernelConstruction* c) -> ::tensorflow::OpKernel* { return new kernel(c); })
