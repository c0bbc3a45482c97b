// StitchModule: reads what a converted SavedModel carries, when the model is initialized.
#include <iostream>

#include "op/aot_module.h"
#include "op/module_file.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/env.h"

namespace tf_stitch {
namespace {

REGISTER_OP("StitchModule")
    .Input("path: string")
    .Attr("digest: string")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); });  // it has no outputs

// What cannot be read is said, and no error: the regions run their own TensorFlow nodes.
class ModuleOp final : public tensorflow::OpKernel {
 public:
  explicit ModuleOp(tensorflow::OpKernelConstruction* c) : OpKernel(c) {
    OP_REQUIRES_OK(c, c->GetAttr("digest", &digest_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& input = ctx->input(0);
    OP_REQUIRES(ctx, input.NumElements() == 1, absl::InvalidArgumentError("the path of a module is one string"));
    const std::string path(input.flat<tensorflow::tstring>()(0));
    std::string bytes, error;
    std::shared_ptr<const AotModule> module;
    error = Read(path, &bytes);
    if (error.empty()) error = AotModule::Parse(std::move(bytes), digest_, &module);
    if (!error.empty()) {
      error = "its kernels could not be read from " + path + ": " + error;
      std::cerr << "[tf_stitch] a converted model runs TensorFlow's own ops: " << error << std::endl;
    }
    KeepAotModule(digest_, std::move(module), error);
  }

 private:
  // "" or why not. TensorFlow's file systems ("gs://bucket/model") have no folders that we could look at.
  static std::string Read(const std::string& path, std::string* bytes) {
    if (path.find("://") == std::string::npos) return ReadModuleFile(path, bytes);
    if (ModulesRestricted()) return "with TF_STITCH=1 modules are loaded from local folders alone";
    tensorflow::uint64 size = 0;
    absl::Status status = tensorflow::Env::Default()->GetFileSize(path, &size);
    if (status.ok() && size > static_cast<tensorflow::uint64>(kMostModuleBytes)) return "it is too large for a module";
    if (status.ok()) status = tensorflow::ReadFileToString(tensorflow::Env::Default(), path, bytes);
    return std::string(status.message());
  }

  std::string digest_;
};

REGISTER_KERNEL_BUILDER(Name("StitchModule").Device(tensorflow::DEVICE_CPU), ModuleOp);

}  // namespace
}  // namespace tf_stitch
