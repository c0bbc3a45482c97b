// Streams that wait for each other, also those of two GPUs.
#pragma once
#include "op/placement.h"

namespace tf_stitch {

// What marks how far a stream has been given work. Recorded and waited for at once: whoever shares one has a lock.
struct StreamMark {
  CUcontext context = nullptr;
  CUevent event = nullptr;  // null: not made yet

  // For streams of this one's device.
  absl::Status Make(CUstream stream) {
    TF_RETURN_IF_ERROR(CudaStatus("cuStreamGetCtx", Cuda().StreamGetCtx(stream, &context)));
    const ScopedContext current(context);
    return CudaStatus("cuEventCreate", Cuda().EventCreate(&event, kEventWithoutTime));
  }
};

// Lets a stream, of the context `its`, wait for all that another one has been given, of whose device `mark` is.
inline absl::Status Follow(CUstream stream, CUcontext its, CUstream other, const StreamMark& mark) {
  {
    const ScopedContext current(mark.context);
    TF_RETURN_IF_ERROR(CudaStatus("cuEventRecord", Cuda().EventRecord(mark.event, other)));
  }
  const ScopedContext current(its);
  return CudaStatus("cuStreamWaitEvent", Cuda().StreamWaitEvent(stream, mark.event, 0));
}

}  // namespace tf_stitch
