// Appended to the kernels of a library that is built to time them.
#include <time.h>

static void tfs_serial_for(void* impl, int64_t total, int64_t cost, tfs_range_fn fn, void* arg) {
  (void)impl; (void)cost;
  fn(arg, 0, total);
}

// Nanoseconds of processor time that `calls` calls of a kernel take in this thread.
int64_t tfs_time(tfs_cpu_kernel kernel, void* const* args, int64_t calls) {
  const tfs_env env = {0, 1, tfs_serial_for};
  struct timespec before, after;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  for (int64_t i = 0; i < calls; ++i) kernel(&env, args);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  return (after.tv_sec - before.tv_sec) * 1000000000ll + (after.tv_nsec - before.tv_nsec);
}
