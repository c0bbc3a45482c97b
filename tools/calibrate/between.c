// Appended to a library with kernels: nanoseconds of each of `calls` calls of a kernel, right after another kernel's.
void tfs_time_after(tfs_cpu_kernel first, void* const* first_args, tfs_cpu_kernel timed, void* const* timed_args,
                    int64_t* ns, int64_t calls) {
  const tfs_env env = {0, 1, tfs_serial_for};
  struct timespec start, before, after;
  for (int64_t i = 0; i < calls; ++i) {
    first(&env, first_args);
    clock_gettime(CLOCK_MONOTONIC, &start);  // the clock itself is warm from here on, and its cost is known
    clock_gettime(CLOCK_MONOTONIC, &before);
    timed(&env, timed_args);
    clock_gettime(CLOCK_MONOTONIC, &after);
    ns[i] = (after.tv_sec - 2 * before.tv_sec + start.tv_sec) * 1000000000ll + after.tv_nsec - 2 * before.tv_nsec +
            start.tv_nsec;
  }
}
