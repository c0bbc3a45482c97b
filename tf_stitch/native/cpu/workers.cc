#include "cpu/workers.h"

#include <utility>

#include "op/element_types.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tf_stitch {

static_assert(static_cast<int>(kFloat) == tensorflow::DT_FLOAT && static_cast<int>(kDouble) == tensorflow::DT_DOUBLE &&
              static_cast<int>(kHalf) == tensorflow::DT_HALF && static_cast<int>(kBfloat16) == tensorflow::DT_BFLOAT16);

int NumThreads(const tsl::thread::ThreadPool& pool) { return pool.NumThreads(); }

void Schedule(tsl::thread::ThreadPool* pool, std::function<void()> work) { pool->Schedule(std::move(work)); }

}  // namespace tf_stitch
