// Tells a thread of each Ctrl-C, also while Python's main thread is in C++ and handles no signal.
#include <errno.h>
#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <mutex>

#define TFS_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct sigaction python;  // what SIGINT did before
bool known = false;
std::atomic<bool> arrived{false};

sem_t* Seen() {
  static sem_t* seen = [] {
    auto* semaphore = new sem_t;
    sem_init(semaphore, 0, 0);
    return semaphore;
  }();
  return seen;
}

void OnInterrupt(int number, siginfo_t* info, void* context) {
  const int error = errno;
  sem_post(Seen());
  arrived = true;
  errno = error;
  if ((python.sa_flags & SA_SIGINFO) != 0) {
    python.sa_sigaction(number, info, context);
  } else {
    python.sa_handler(number);
  }
}

}  // namespace

namespace tf_stitch {

bool TakeInterrupt() { return arrived.exchange(false); }

}  // namespace tf_stitch

// Nothing where SIGINT ends the process or is ignored. Handlers that are neither Python's nor ours stay as they are.
TFS_EXPORT void tfs_watch_install() {
  static auto* mutex = new std::mutex;
  const std::lock_guard<std::mutex> lock(*mutex);
  struct sigaction now;
  if (sigaction(SIGINT, nullptr, &now) != 0) return;
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == OnInterrupt) return;
  if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return;
  if (known && now.sa_sigaction != python.sa_sigaction) return;
  Seen();
  python = now;
  known = true;
  now.sa_sigaction = OnInterrupt;
  now.sa_flags |= SA_SIGINFO;
  sigaction(SIGINT, &now, nullptr);
}

// Returns with the next SIGINT.
TFS_EXPORT void tfs_watch_wait() {
  while (sem_wait(Seen()) != 0 && errno == EINTR) {
  }
}
