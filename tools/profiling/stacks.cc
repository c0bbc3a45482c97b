// Stacks of chosen threads at random moments: a thread of our own interrupts them.
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr int kDepth = 96;

struct Sample {
  std::int64_t thread, depth;
  void* frames[kDepth];  // innermost first; the first two are the handler's and the signal's
};

std::vector<Sample>* samples;
std::atomic<std::size_t> taken{0};
std::atomic<bool> wanted{false};
std::thread* sampler;

void Take(int) {
  const int error = errno;
  const std::size_t i = taken.fetch_add(1);
  if (i < samples->size()) {
    Sample& sample = (*samples)[i];
    sample.thread = syscall(SYS_gettid);
    sample.depth = backtrace(sample.frames, kDepth);
  }
  errno = error;
}

void Interrupt(const std::vector<std::int64_t>& threads, double microseconds) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> pause(0.5 * microseconds, 1.5 * microseconds);
  while (wanted) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(pause(random)));
    for (std::int64_t thread : threads) syscall(SYS_tgkill, getpid(), thread, SIGPROF);
  }
}

}  // namespace

extern "C" {

// Samples `threads` (numbers of the system) about every so many microseconds until `stop_sampling`. 0: it has begun.
int start_sampling(const std::int64_t* threads, std::int64_t count, double microseconds, std::int64_t most) {
  void* frame;
  backtrace(&frame, 1);  // loads what it needs: a handler must not
  samples = new std::vector<Sample>(most);  // kept: a signal may be late
  taken = 0;
  struct sigaction action {};
  action.sa_handler = Take;
  action.sa_flags = SA_RESTART;
  if (sigaction(SIGPROF, &action, nullptr) != 0) return 1;
  wanted = true;
  sampler = new std::thread(Interrupt, std::vector<std::int64_t>(threads, threads + count), microseconds);
  return 0;
}

// Returns how many samples there are, each of 2 + kDepth words: thread, depth, frames.
std::int64_t stop_sampling(void** first) {
  wanted = false;
  sampler->join();
  delete sampler;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  *first = samples->data();
  return std::min(taken.load(), samples->size());
}
}
