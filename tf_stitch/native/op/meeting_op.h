// Ops of several GPUs of a process that meet: each leaves its part, the last one gives all devices their work, in streams
// of their own beside TensorFlow's, and nobody waits on the host.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "op/arrivals.h"
#include "op/local_rendezvous.h"
#include "op/stream_order.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

// Attributes of all of them. `group`: its members' names, the same for all; `bucket`: which of those that have one
// instance_key; `early`: the input may be there before the stream has come to its end, `late`: who reads the output waits
// for it, not the stream (op/arrivals.h).
#define TFS_MEETING_ATTRIBUTES                       \
  Attr("T: {half, bfloat16, float, double, int64}")  \
      .Attr("group: string")                         \
      .Attr("size: int >= 1")                        \
      .Attr("rank: int >= 0")                        \
      .Attr("bucket: int = 0")                       \
      .Attr("early: bool = false")                   \
      .Attr("late: bool = false")                    \
      .SetIsStateful()                               \
      .SetIsDistributedCommunication()

// Where a device works beside TensorFlow's stream. For the life of the process.
struct SideStream {
  CUdevice device = 0;
  CUstream stream = nullptr;
  StreamMark mark;  // of both streams of the device
};

// Where a member gets its result.
struct Output {
  const void* data;
  bool fresh;  // allocated just now: what the stream has been given may still use its memory
};

// What a member has left.
struct Part {
  tensorflow::OpKernelContext* ctx;
  tensorflow::AsyncOpKernel::DoneCallback done;
  tensorflow::CancellationToken token;
  CUstream stream;
  Output output;
  bool early;
  CUevent* late;  // null: the stream is to wait for the output; else of the op, null until it has been made

  const void* input() const { return ctx->input(0).data(); }
};

class MeetingOp : public tensorflow::AsyncOpKernel {
 public:
  explicit MeetingOp(tensorflow::OpKernelConstruction* c);
  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override;

 protected:
  virtual absl::Status Allocate(tensorflow::OpKernelContext* ctx, Output* output) = 0;

  // Gives side streams their work; each waits for its device's input already, and for a fresh output's memory.
  virtual absl::Status Give(const std::vector<Part>& parts, const std::vector<const SideStream*>& sides) = 0;

 private:
  absl::Status Meet(const std::vector<Part>& parts);
  absl::Status GiveAll(const std::vector<Part>& parts);

  std::string group_;
  int size_ = 0, rank_ = 0;
  std::int64_t bucket_ = 0;
  bool early_ = false, late_ = false;
  CUevent arrived_ = nullptr;  // of the output; stays for the life of the process, as a graph may wait for it
};

}  // namespace tf_stitch
