// BLAKE2b with digests of 32 bytes and no key (RFC 7693), of an 80-byte header whose last 8 bytes are a nonce. A thread
// tries `tries` nonces, that many apart as there are threads, and keeps the digest that is the smallest, and its nonce: of
// the digests' first words; the first of equal ones. Words are little-endian numbers. Blocks of 256 threads.
__constant__ const unsigned long long BLAKE2B_IV[8] = {0x6a09e667f3bcc908ull, 0xbb67ae8584caa73bull, 0x3c6ef372fe94f82bull,
                                                 0xa54ff53a5f1d36f1ull, 0x510e527fade682d1ull, 0x9b05688c2b3e6c1full,
                                                 0x1f83d9abfb41bd6bull, 0x5be0cd19137e2179ull};
__constant__ const unsigned char BLAKE2B_SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

__device__ __forceinline__ unsigned long long rotated(unsigned long long x, int by) { return x >> by | x << (64 - by); }

__device__ __forceinline__ void mix(unsigned long long& a, unsigned long long& b, unsigned long long& c,
                                    unsigned long long& d, unsigned long long one, unsigned long long two) {
  a += b + one;
  d = rotated(d ^ a, 32);
  c += d;
  b = rotated(b ^ c, 24);
  a += b + two;
  d = rotated(d ^ a, 16);
  c += d;
  b = rotated(b ^ c, 63);
}

extern "C" __global__ void __launch_bounds__(256) blake2b(const unsigned long long* __restrict__ header, unsigned long long first,
                                                          int tries, unsigned long long* __restrict__ nonces,
                                                          unsigned long long* __restrict__ digests) {
  const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  unsigned long long m[16], best[4], best_nonce = first + thread;
  for (int i = 0; i < 9; ++i) m[i] = header[i];
  for (int i = 10; i < 16; ++i) m[i] = 0;
  for (int i = 0; i < 4; ++i) best[i] = ~0ull;
  for (int n = 0; n < tries; ++n) {
    const unsigned long long nonce = first + thread + (unsigned long long)n * threads;
    m[9] = nonce;
    unsigned long long v[16];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = v[8 + i] = BLAKE2B_IV[i];
    v[0] ^= 0x01010020ull;
    v[12] ^= 80;
    v[14] = ~v[14];
#pragma unroll
    for (int round = 0; round < 12; ++round) {
      const unsigned char* s = BLAKE2B_SIGMA[round % 10];
#pragma unroll
      for (int i = 0; i < 4; ++i) mix(v[i], v[4 + i], v[8 + i], v[12 + i], m[s[2 * i]], m[s[2 * i + 1]]);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        mix(v[i], v[4 + (i + 1) % 4], v[8 + (i + 2) % 4], v[12 + (i + 3) % 4], m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
    }
    unsigned long long h[4];
    for (int i = 0; i < 4; ++i) h[i] = BLAKE2B_IV[i] ^ (i == 0 ? 0x01010020ull : 0) ^ v[i] ^ v[8 + i];
    if (n == 0 || h[0] < best[0]) {
      for (int i = 0; i < 4; ++i) best[i] = h[i];
      best_nonce = nonce;
    }
  }
  nonces[thread] = best_nonce;
  for (int i = 0; i < 4; ++i) digests[4 * thread + i] = best[i];
}
