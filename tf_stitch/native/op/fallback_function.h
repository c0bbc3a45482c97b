// A region's own TensorFlow nodes as a function that runs inside the op, on its device.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "op/partition_passes.h"
#include "op/work_queue.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

// Attributes of the FunctionDef. Its nodes run side by side, as TensorFlow would run them, not in the op's thread:
constexpr char kParallel[] = "_tf_stitch_parallel";
// A list of numbers: the arguments that are variables which its nodes write.
constexpr char kWritten[] = "_tf_stitch_written";

// Grappler has not seen its nodes: those of a converted model, whose original it would optimize.
constexpr char kUnoptimized[] = "_tf_stitch_unoptimized";

// The nodes. They are in no graph's library: TensorFlow drops the functions that a plug-in adds there.
class FallbackSubgraph {
 public:
  // From a serialized FunctionDef (op's inputs, variables) -> outputs; null where it is none, or TensorFlow's passes fail.
  // `device` is one that it will run on.
  static std::shared_ptr<const FallbackSubgraph> Parse(const std::string& definition, tensorflow::Device* device,
                                                       bool on_gpu) {
    tensorflow::FunctionDefLibrary functions;
    tensorflow::FunctionDef* function = functions.add_function();
    if (!function->ParseFromString(definition)) return nullptr;
    if (on_gpu) {
      // The op's inputs and outputs lie on its device, where functions expect small integers in host memory.
      (*function->mutable_attr())[tensorflow::FunctionLibraryDefinition::kIntsOnDeviceAttr].set_b(true);
    } else if (!RunPasses(function->attr().count(kUnoptimized) != 0 ? device : nullptr, function).ok()) {
      return nullptr;
    }
    return std::shared_ptr<const FallbackSubgraph>(new FallbackSubgraph(functions));
  }

  // `naming`: for the sake of an error's node, which the executor of a single thread does not tell.
  absl::Status Instantiate(tensorflow::FunctionLibraryRuntime* library, bool naming,
                           tensorflow::FunctionLibraryRuntime::Handle* handle) const {
    // One at a time: another kernel of the region would be handed the instance that is about to be refused.
    tensorflow::mutex_lock lock(instantiating_);
    absl::Status status;
    *handle = tensorflow::kInvalidHandle;
    // The first costs least per node. It takes no edges between host and device memory, which the second does.
    for (const char* executor : {"SINGLE_THREADED_EXECUTOR", ""}) {
      if ((parallel_ || naming) && *executor != '\0') continue;
      tensorflow::FunctionLibraryRuntime::InstantiateOptions options;
      if (naming) options.state_handle = "tf_stitch_naming";  // part of what tells instances apart
      options.lib_def = &library_;
      options.executor_type = executor;
      options.create_kernels_eagerly = true;
      status = library->Instantiate(name_, tensorflow::AttrSlice(), options, handle);
      if (status.ok()) break;
      // Kernels come last: what has none has a handle all the same, and who asks for the other executor would get it.
      if (*handle != tensorflow::kInvalidHandle) library->ReleaseHandle(*handle).IgnoreError();
      *handle = tensorflow::kInvalidHandle;
    }
    return status;
  }

  bool parallel() const { return parallel_; }
  const std::vector<int>& written() const { return written_; }

 private:
  explicit FallbackSubgraph(const tensorflow::FunctionDefLibrary& functions)
      : name_(functions.function(0).signature().name()),
        parallel_(functions.function(0).attr().count(kParallel) != 0),
        library_(tensorflow::OpRegistry::Global(), functions) {
    const auto written = functions.function(0).attr().find(kWritten);
    if (written == functions.function(0).attr().end()) return;
    for (const std::int64_t argument : written->second.list().i()) written_.push_back(static_cast<int>(argument));
  }

  std::string name_;
  bool parallel_;
  std::vector<int> written_;
  mutable tensorflow::mutex instantiating_;
  tensorflow::FunctionLibraryDefinition library_;
};

// What one kernel instantiated of them, by function library: a kernel can be run with several, and outlive them.
class FallbackFunction {
 public:
  explicit FallbackFunction(bool on_gpu, bool naming = false) : on_gpu_(on_gpu), naming_(naming) {}
  FallbackFunction(const FallbackFunction&) = delete;
  FallbackFunction& operator=(const FallbackFunction&) = delete;

  ~FallbackFunction() { Release(); }

  // Runs the nodes and sets the op's outputs, in place of those of a failed attempt.
  absl::Status Run(tensorflow::OpKernelContext* ctx, const std::vector<tensorflow::Tensor>& inputs,
                   const std::shared_ptr<const FallbackSubgraph>& nodes, bool* ran) {
    std::vector<tensorflow::Tensor> outputs;
    TF_RETURN_IF_ERROR(Run(ctx, inputs, nodes, &outputs, ran));
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      tensorflow::TensorValue stale = ctx->release_output(i);
      delete stale.tensor;
      ctx->set_output(i, std::move(outputs[i]));
    }
    return absl::OkStatus();
  }

  // Runs the nodes. Variables are read and written by TensorFlow's own ops: the caller holds no lock. This thread may be one
  // of TensorFlow's pool, which has others only if they are free: it works until all is done. `ran` says whether an error is
  // the nodes' own.
  absl::Status Run(tensorflow::OpKernelContext* ctx, const std::vector<tensorflow::Tensor>& inputs,
                   const std::shared_ptr<const FallbackSubgraph>& nodes, std::vector<tensorflow::Tensor>* outputs,
                   bool* ran) {
    *ran = false;
    tensorflow::FunctionLibraryRuntime* library = ctx->function_library();
    if (library == nullptr) return absl::FailedPreconditionError("TensorFlow runs this op without a function library");
    while (true) {
      {
        tensorflow::tf_shared_lock lock(mutex_);  // until the end: Release must not take away what runs
        if (const Instance* instance = Find(library)) {
          *ran = true;
          return Run(ctx, inputs, library, instance->handle, nodes->parallel(), outputs);
        }
      }
      tensorflow::mutex_lock lock(mutex_);
      if (Find(library) != nullptr) continue;
      tensorflow::FunctionLibraryRuntime::Handle handle;
      TF_RETURN_IF_ERROR(nodes->Instantiate(library, naming_, &handle));
      instances_.erase(std::remove_if(instances_.begin(), instances_.end(), [](const Instance& instance) {
        return instance.alive.GetNewRef() == nullptr;
      }), instances_.end());
      instances_.push_back(
          {library, tensorflow::core::WeakPtr<tensorflow::FunctionLibraryRuntime>(library), handle, nodes});
    }
  }

  // Frees what was instantiated; a later Run does it again.
  void Release() {
    tensorflow::mutex_lock lock(mutex_);
    for (const Instance& instance : instances_) {
      const auto library = instance.alive.GetNewRef();
      if (library != nullptr) library->ReleaseHandle(instance.handle).IgnoreError();
    }
    instances_.clear();
  }

 private:
  struct Instance {
    tensorflow::FunctionLibraryRuntime* library;
    tensorflow::core::WeakPtr<tensorflow::FunctionLibraryRuntime> alive;
    tensorflow::FunctionLibraryRuntime::Handle handle;
    std::shared_ptr<const FallbackSubgraph> nodes;  // TensorFlow reads the library of what is instantiated
  };

  absl::Status Run(tensorflow::OpKernelContext* ctx, const std::vector<tensorflow::Tensor>& inputs,
                   tensorflow::FunctionLibraryRuntime* library, tensorflow::FunctionLibraryRuntime::Handle handle,
                   bool parallel, std::vector<tensorflow::Tensor>* outputs) const {
    std::function<void(std::function<void()>)> runner = [](std::function<void()> work) { work(); };
    const auto queue = std::make_shared<WorkQueue>(ctx->runner());
    if (parallel) runner = [queue](std::function<void()> work) { queue->Add(std::move(work)); };
    tensorflow::FunctionLibraryRuntime::Options options(ctx->step_id());
    // Nodes that fail cancel what they share a manager or a rendezvous with: no more than themselves, since the kernels
    // may run in their place.
    std::optional<tensorflow::CancellationManager> cancellation;
    if (tensorflow::CancellationManager* step = ctx->cancellation_manager()) {
      options.cancellation_manager = &cancellation.emplace(step);
    }
    options.step_container = ctx->step_container();
    options.stats_collector = ctx->stats_collector();
    options.runner = &runner;
    options.run_all_kernels_inline = !parallel;
    options.create_rendezvous = on_gpu_;  // for edges between its two memories

    if (parallel) {
      absl::Status status;
      library->Run(options, handle, inputs, outputs, [&status, queue](const absl::Status& done) {
        status = done;
        queue->Close();
      });
      queue->DoAll();
      TF_RETURN_IF_ERROR(status);
    } else {
      TF_RETURN_IF_ERROR(library->RunSync(options, handle, inputs, outputs));
    }
    if (static_cast<int>(outputs->size()) == ctx->num_outputs()) return absl::OkStatus();
    return absl::InternalError("tf_stitch: the region's own nodes have another number of outputs");
  }

  const Instance* Find(tensorflow::FunctionLibraryRuntime* library) const {
    for (const Instance& instance : instances_) {
      if (instance.library == library && instance.alive.GetNewRef() != nullptr) return &instance;
    }
    return nullptr;
  }

  const bool on_gpu_, naming_;
  mutable tensorflow::mutex mutex_;
  std::vector<Instance> instances_;
};

}  // namespace tf_stitch
