// Appended to a library with kernels and `tfs_time`: nanoseconds of `calls` turns of two kernels, one after the other.
int64_t tfs_time_turns(tfs_cpu_kernel first, void* const* first_args, tfs_cpu_kernel second, void* const* second_args,
                       int64_t calls) {
  const tfs_env env = {0, 1, tfs_serial_for};
  struct timespec before, after;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  for (int64_t i = 0; i < calls; ++i) {
    first(&env, first_args);
    second(&env, second_args);
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  return (after.tv_sec - before.tv_sec) * 1000000000ll + (after.tv_nsec - before.tv_nsec);
}
