// Hashimoto of Ethash (Ethereum yellow paper, appendix J) over a dataset of `pages` of 128 bytes, for a 32-byte header hash
// and nonces from `first` on. A thread tries `tries` nonces, that many apart as there are threads, and keeps the result that
// is the smallest, its mix digest and its nonce: of the results' first bytes, as little-endian numbers of 64 bits; the first
// of equal ones. Eight lanes read a page together, 16 bytes each, for one of them after the other. Blocks of 256 threads.
__constant__ const unsigned long long KECCAK_RC[24] = {
    0x0000000000000001ull, 0x0000000000008082ull, 0x800000000000808aull, 0x8000000080008000ull, 0x000000000000808bull,
    0x0000000080000001ull, 0x8000000080008081ull, 0x8000000000008009ull, 0x000000000000008aull, 0x0000000000000088ull,
    0x0000000080008009ull, 0x000000008000000aull, 0x000000008000808bull, 0x800000000000008bull, 0x8000000000008089ull,
    0x8000000000008003ull, 0x8000000000008002ull, 0x8000000000000080ull, 0x000000000000800aull, 0x800000008000000aull,
    0x8000000080008081ull, 0x8000000000008080ull, 0x0000000080000001ull, 0x8000000080008008ull};

__device__ __forceinline__ unsigned long long rotated(unsigned long long x, int by) { return x << by | x >> (64 - by); }

__device__ void keccak(unsigned long long* a) {
  for (int round = 0; round < 24; ++round) {
    unsigned long long c[5], b[25];
#pragma unroll
    for (int x = 0; x < 5; ++x) c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
#pragma unroll
    for (int x = 0; x < 5; ++x) {
      const unsigned long long d = c[(x + 4) % 5] ^ rotated(c[(x + 1) % 5], 1);
#pragma unroll
      for (int y = 0; y < 25; y += 5) a[y + x] ^= d;
    }
    // Lane (x, y) goes to (y, 2x + 3y), turned by the triangular number of the step at which the walk from (1, 0) is there.
    b[0] = a[0];
    int x = 1, y = 0;
#pragma unroll
    for (int t = 0; t < 24; ++t) {
      const int by = (t + 1) * (t + 2) / 2 % 64, next = (2 * x + 3 * y) % 5;
      b[y + 5 * next] = by ? rotated(a[x + 5 * y], by) : a[x + 5 * y];
      x = y;
      y = next;
    }
#pragma unroll
    for (int row = 0; row < 25; row += 5)
#pragma unroll
      for (int i = 0; i < 5; ++i) a[row + i] = b[row + i] ^ (~b[row + (i + 1) % 5] & b[row + (i + 2) % 5]);
    a[0] ^= KECCAK_RC[round];
  }
}

__device__ __forceinline__ unsigned int fnv(unsigned int x, unsigned int y) { return x * 0x01000193u ^ y; }

extern "C" __global__ void __launch_bounds__(256) ethash(const uint4* __restrict__ dataset, unsigned int pages,
                                                         const unsigned long long* __restrict__ header, unsigned long long first,
                                                         int tries, unsigned long long* __restrict__ nonces,
                                                         unsigned long long* __restrict__ results,
                                                         unsigned long long* __restrict__ mixes) {
  const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  const int lane = threadIdx.x % 8;
  unsigned long long best[4], best_mix[4], best_nonce = first + thread;
  for (int i = 0; i < 4; ++i) best[i] = best_mix[i] = ~0ull;
  for (int n = 0; n < tries; ++n) {
    const unsigned long long nonce = first + thread + (unsigned long long)n * threads;
    unsigned long long state[25], seed[8], mix_digest[4];
    for (int i = 0; i < 4; ++i) state[i] = header[i];
    state[4] = nonce;
    state[5] = 1;
    for (int i = 6; i < 25; ++i) state[i] = 0;
    state[8] = 0x8000000000000000ull;
    keccak(state);
    for (int i = 0; i < 8; ++i) seed[i] = state[i];
    for (int i = 0; i < 4; ++i) mix_digest[i] = 0;
    for (int whose = 0; whose < 8; ++whose) {
      // The mix is the seed twice: each lane has four of its 32 words.
      unsigned int mix[4];
      unsigned int seed_word = 0;
      for (int i = 0; i < 8; ++i) {
        const unsigned long long word = __shfl_sync(0xffffffffu, seed[i], whose, 8);
        if (i == 0) seed_word = (unsigned int)word;
        if (i / 2 == lane % 4) {
          mix[2 * (i % 2)] = (unsigned int)word;
          mix[2 * (i % 2) + 1] = (unsigned int)(word >> 32);
        }
      }
      for (int access = 0; access < 64; ++access) {
        const int word = access % 32;
        unsigned int chosen = mix[0];
        if (word % 4 == 1) chosen = mix[1];
        if (word % 4 == 2) chosen = mix[2];
        if (word % 4 == 3) chosen = mix[3];
        chosen = __shfl_sync(0xffffffffu, chosen, word / 4, 8);
        const unsigned int page = fnv((unsigned int)access ^ seed_word, chosen) % pages;
        const uint4 read = dataset[(unsigned long long)page * 8 + lane];
        mix[0] = fnv(mix[0], read.x);
        mix[1] = fnv(mix[1], read.y);
        mix[2] = fnv(mix[2], read.z);
        mix[3] = fnv(mix[3], read.w);
      }
      const unsigned int own = fnv(fnv(fnv(mix[0], mix[1]), mix[2]), mix[3]);
      for (int i = 0; i < 8; ++i) {
        const unsigned int word = __shfl_sync(0xffffffffu, own, i, 8);
        if (lane == whose) mix_digest[i / 2] |= (unsigned long long)word << (i % 2 ? 32 : 0);
      }
    }
    for (int i = 0; i < 8; ++i) state[i] = seed[i];
    for (int i = 0; i < 4; ++i) state[8 + i] = mix_digest[i];
    state[12] = 1;
    for (int i = 13; i < 25; ++i) state[i] = 0;
    state[16] = 0x8000000000000000ull;
    keccak(state);
    if (n == 0 || state[0] < best[0]) {
      for (int i = 0; i < 4; ++i) best[i] = state[i], best_mix[i] = mix_digest[i];
      best_nonce = nonce;
    }
  }
  nonces[thread] = best_nonce;
  for (int i = 0; i < 4; ++i) results[4 * thread + i] = best[i], mixes[4 * thread + i] = best_mix[i];
}
