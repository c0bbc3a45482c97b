// StitchModule: reads what a converted SavedModel carries, when the model is initialized.
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "op/loaded_modules.h"
#include "op/module_file.h"
#include "op/registration.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/env.h"

namespace tf_stitch {
namespace {

TFS_REGISTER_OP("StitchModule")
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
    std::string error;
    auto module = LoadModule(digest_, path, [path](std::string* bytes) { return Read(path, bytes); }, &error);
    if (module == nullptr) std::cerr << "[tf_stitch] a converted model runs TensorFlow's own ops: " << error << std::endl;
    const std::lock_guard<std::mutex> lock(mutex_);
    module_ = std::move(module);
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
  std::mutex mutex_;
  std::shared_ptr<const AotModule> module_;  // as long as TensorFlow keeps the initialization: a session, to its end
};

TFS_REGISTER_KERNEL(Name("StitchModule").Device(tensorflow::DEVICE_CPU), ModuleOp);

}  // namespace
}  // namespace tf_stitch
