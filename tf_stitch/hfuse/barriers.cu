// Barriers of some of a block's threads: number Id of 15, of Threads threads, a multiple of a warp's.
#ifndef TFS_WITHOUT_PTX
template <int Id, int Threads> __device__ __forceinline__ void hfuse_bar_sync() {
  asm volatile("bar.sync %0, %1;" :: "n"(Id), "n"(Threads) : "memory");
}
template <int Id, int Threads> __device__ __forceinline__ int hfuse_bar_count(int p) {
  int result;
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; bar.red.popc.u32 %0, %2, %3, p; }"
               : "=r"(result) : "r"(p), "n"(Id), "n"(Threads) : "memory");
  return result;
}
template <int Id, int Threads> __device__ __forceinline__ int hfuse_bar_and(int p) {
  int result;
  asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.and.pred q, %2, %3, p; selp.s32 %0, 1, 0, q; }"
               : "=r"(result) : "r"(p), "n"(Id), "n"(Threads) : "memory");
  return result;
}
template <int Id, int Threads> __device__ __forceinline__ int hfuse_bar_or(int p) {
  int result;
  asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.or.pred q, %2, %3, p; selp.s32 %0, 1, 0, q; }"
               : "=r"(result) : "r"(p), "n"(Id), "n"(Threads) : "memory");
  return result;
}
// Where lanes of one warp may be in different places: as hfuse_bar_or, of no aligned warps.
template <int Id, int Threads> __device__ __forceinline__ bool hfuse_bar_meet(bool here) {
  int any;
  asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; barrier.red.or.pred q, %2, %3, p; selp.s32 %0, 1, 0, q; }"
               : "=r"(any) : "r"((int)here), "n"(Id), "n"(Threads) : "memory");
  return any != 0;
}
#endif
