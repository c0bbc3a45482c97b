// TensorFlow's pool of threads, for sources that do without its headers: those take seconds to compile.
#pragma once
#include <functional>

namespace tsl::thread {
class ThreadPool;
}

namespace tf_stitch {

int NumThreads(const tsl::thread::ThreadPool& pool);
void Schedule(tsl::thread::ThreadPool* pool, std::function<void()> work);

}  // namespace tf_stitch
