// What both programs need of compute capability 9.0: barriers in shared memory, and loads and stores that other blocks see.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

constexpr int SPINS = 1 << 20;  // of a wait, which has failed then

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void expect_bytes(uint32_t barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline bool arrived(uint32_t barrier, unsigned parity) {
  uint32_t result;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(result)
      : "r"(barrier), "r"(parity)
      : "memory");
  return result;
}

__device__ inline unsigned load_acquire(const unsigned* pointer) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(pointer) : "memory");
  return value;
}

__device__ inline uint4 load_packet(const void* pointer) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(pointer)
               : "memory");
  return v;
}

// A value and the number of its turn, which arrive together.
__device__ inline void store_packet(void* pointer, unsigned value, unsigned number) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(pointer), "r"(value), "r"(number) : "memory");
}

// Two of them.
__device__ inline void store_packet(void* pointer, unsigned first, unsigned second, unsigned number) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(pointer), "r"(first), "r"(number),
               "r"(second)
               : "memory");
}
