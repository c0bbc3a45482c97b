// Runs the steps of an executable on buffers that are already there.
#pragma once
#include <chrono>

#include "absl/container/inlined_vector.h"
#include "cuda/cuda_graph.h"
#include "op/executable.h"
#include "op/placement.h"
#include "op/step_labels.h"
#include "cpu/shared_loop.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tf_stitch {

class Launcher {
 public:
  Launcher(tensorflow::OpKernelContext* ctx, const Placement& placement, const Buffers& buffers)
      : placement_(placement), buffers_(buffers) {
    if (placement.on_gpu) return;
    const auto* workers = ctx->device()->tensorflow_cpu_worker_threads();
    env_ = {workers->workers, workers->num_threads, &ParallelFor};
  }

  // All steps: as one CUDA graph where there is one and it is wanted, else one by one, as for a profiler, which could not
  // tell the kernels of a graph apart. `context` is current on a GPU. `early`: outputs that somebody may want before all
  // steps have ended; `ready` gets an event for each, or stays empty. `late`: inputs to wait for.
  absl::Status Run(const Executable& executable, CUcontext context, bool as_graph, const std::vector<int>& early,
                   const std::vector<LateInput>& late, std::vector<CUevent>* ready) const {
    const std::vector<Step>& steps = executable.steps;
    const bool trial = placement_.on_gpu && executable.graph->CountRun();
    const Clock::time_point trials_until = trial ? Clock::now() + kTrials : Clock::time_point::min();
    const auto labels = Profiled() ? std::atomic_load(&executable.labels) : nullptr;
    const bool labelled = labels != nullptr && !labels->empty();
    if (placement_.on_gpu && as_graph && !labelled && executable.graph->Wanted(steps)) {
      const auto record = [this](CUstream stream, const Step& step, std::size_t workspace) {
        const Placement elsewhere{true, stream};
        return std::string(Launcher(elsewhere, buffers_, workspace).RunOne(step, Clock::time_point::min()).message());
      };
      if (executable.graph->Launch(context, executable, buffers_, placement_.stream, early, late, record)) {
        *ready = executable.graph->ready();
        return absl::OkStatus();
      }
    }
    const std::string awaited = AwaitOnStream(placement_.stream, late);
    if (!awaited.empty()) return absl::InternalError(absl::StrCat("tf_stitch: ", awaited));
    if (labelled) return RunLabelled(steps, *labels, trials_until);
    for (const Step& step : steps) TF_RETURN_IF_ERROR(RunOne(step, trials_until));
    return absl::OkStatus();
  }

  absl::Status Run(const Executable& executable, CUcontext context, bool as_graph = true) const {
    std::vector<CUevent> ready;
    return Run(executable, context, as_graph, {}, {}, &ready);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr auto kTrials = std::chrono::milliseconds(20);  // of a run, for calls to try proposals in

  Launcher(const Placement& gpu, const Buffers& buffers, std::size_t workspace)
      : placement_(gpu), buffers_(buffers), workspace_(workspace) {}

  absl::Status RunLabelled(const std::vector<Step>& steps, const std::vector<std::string>& labels,
                           Clock::time_point trials_until) const {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const ScopedLabel label(labels[i]);
      TF_RETURN_IF_ERROR(RunOne(steps[i], trials_until));
    }
    return absl::OkStatus();
  }

  absl::Status RunOne(const Step& step, Clock::time_point trials_until) const {
    return std::visit([this, trials_until](const auto& one) {
      if constexpr (std::is_same_v<std::decay_t<decltype(one)>, LibraryStep>) {
        return RunStep(one, trials_until);
      } else {
        return RunStep(one);
      }
    }, step);
  }

  using Arguments = absl::InlinedVector<void*, 32>;

  static void ParallelFor(void* impl, std::int64_t total, std::int64_t cost, tfs_range_fn fn, void* arg) {
    SharedLoop::Run(static_cast<tensorflow::thread::ThreadPool*>(impl), total, cost,
                    [fn, arg](std::int64_t begin, std::int64_t end) { fn(arg, begin, end); });
  }

  Arguments Collect(const std::vector<Operand>& operands) const {
    Arguments arguments(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) arguments[i] = buffers_.At(operands[i]);
    return arguments;
  }

  absl::Status RunStep(const CpuLaunch& launch) const {
    Arguments arguments = Collect(launch.args);
    if (!launch.sizes.empty()) arguments.push_back(const_cast<std::int64_t*>(launch.sizes.data()));
    const int code = launch.kernel(&env_, arguments.data());
    if (code == 0) return absl::OkStatus();
    if (code == 1) return absl::InvalidArgumentError("tf_stitch: an index is out of range");  // kernel IR's Fail
    return absl::InternalError(absl::StrCat("tf_stitch: a generated kernel returned ", code));
  }

  absl::Status RunStep(const GpuLaunch& launch) const {
    Arguments values = Collect(launch.args);
    Arguments addresses(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) addresses[i] = &values[i];
    for (const std::int64_t& size : launch.sizes) addresses.push_back(const_cast<std::int64_t*>(&size));
    if (launch.cooperative) {
      return CudaStatus("cuLaunchCooperativeKernel",
                        Cuda().LaunchCooperativeKernel(launch.function, launch.grid, 1, 1, launch.block, 1, 1,
                                                       launch.dynamic_shared_bytes, placement_.stream,
                                                       addresses.data()));
    }
    return CudaStatus("cuLaunchKernel", Cuda().LaunchKernel(launch.function, launch.grid, 1, 1, launch.block, 1, 1,
                                                            launch.dynamic_shared_bytes, placement_.stream,
                                                            addresses.data(), nullptr));
  }

  // Calls may try their library's proposals until then: those that have not done so try them in the next run.
  absl::Status RunStep(const LibraryStep& step, Clock::time_point trials_until) const {
    const Arguments arguments = Collect(step.args);
    const bool trial = trials_until != Clock::time_point::min() && Clock::now() < trials_until;
    const std::string error =
        placement_.on_gpu
            ? step.on_device->Run(placement_.stream, arguments.data(), buffers_.workspace + workspace_, trial)
            : step.call->RunOnHost(arguments.data(), static_cast<tensorflow::thread::ThreadPool*>(env_.impl));
    return error.empty() ? absl::OkStatus() : absl::InternalError(absl::StrCat("tf_stitch: ", error));
  }

  absl::Status RunStep(const Copy& copy) const {
    return CopyBytes(placement_, buffers_.At(copy.target), buffers_.At(copy.source), copy.bytes);
  }

  const Placement& placement_;
  const Buffers& buffers_;
  const std::size_t workspace_ = 0;  // where the scratch memory of a library call begins
  tfs_env env_{};
};

}  // namespace tf_stitch
