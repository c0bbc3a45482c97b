// BLAKE-256, 14 rounds (Aumasson, Henzen, Meier, Phan: SHA-3 proposal BLAKE, 2010), of an 80-byte header whose last word is
// a nonce. A thread tries `tries` nonces, that many apart as there are threads, and keeps the digest that is the smallest,
// and its nonce: of the digests' first words; the first of equal ones. Words of the header are big-endian numbers. Blocks
// of 256 threads.
__constant__ const unsigned int BLAKE_C[16] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
                                         0x082efa98, 0xec4e6c89, 0x452821e6, 0x38d01377, 0xbe5466cf, 0x34e90c6c,
                                         0xc0ac29b7, 0xc97c50dd, 0x3f84d5b5, 0xb5470917};
__constant__ const unsigned char BLAKE_SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

__device__ __forceinline__ unsigned int rotated(unsigned int x, int by) { return x >> by | x << (32 - by); }

__device__ __forceinline__ void mix(unsigned int& a, unsigned int& b, unsigned int& c, unsigned int& d, unsigned int one,
                                    unsigned int two) {
  a += b + one;
  d = rotated(d ^ a, 16);
  c += d;
  b = rotated(b ^ c, 12);
  a += b + two;
  d = rotated(d ^ a, 8);
  c += d;
  b = rotated(b ^ c, 7);
}

// `bits`: of the message so far.
__device__ __forceinline__ void compress(unsigned int* h, const unsigned int* m, unsigned int bits) {
  unsigned int v[16];
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = h[i], v[8 + i] = BLAKE_C[i];
  v[12] ^= bits;
  v[13] ^= bits;
#pragma unroll
  for (int round = 0; round < 14; ++round) {
    const unsigned char* s = BLAKE_SIGMA[round % 10];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      mix(v[i], v[4 + i], v[8 + i], v[12 + i], m[s[2 * i]] ^ BLAKE_C[s[2 * i + 1]], m[s[2 * i + 1]] ^ BLAKE_C[s[2 * i]]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int j = 8 + 2 * i;
      mix(v[i], v[4 + (i + 1) % 4], v[8 + (i + 2) % 4], v[12 + (i + 3) % 4], m[s[j]] ^ BLAKE_C[s[j + 1]],
          m[s[j + 1]] ^ BLAKE_C[s[j]]);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) h[i] ^= v[i] ^ v[8 + i];
}

extern "C" __global__ void __launch_bounds__(256) blake256(const unsigned int* __restrict__ header, unsigned int first, int tries,
                                                           unsigned int* __restrict__ nonces, unsigned int* __restrict__ digests) {
  const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  unsigned int middle[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned int m[16], best[8], best_nonce = first + thread;
  for (int i = 0; i < 16; ++i) m[i] = header[i];
  compress(middle, m, 512);
  for (int i = 0; i < 3; ++i) m[i] = header[16 + i];
  m[4] = 0x80000000u;
  for (int i = 5; i < 13; ++i) m[i] = 0;
  m[13] = 1;
  m[14] = 0;
  m[15] = 640;
  for (int i = 0; i < 8; ++i) best[i] = 0xffffffffu;
  for (int n = 0; n < tries; ++n) {
    const unsigned int nonce = first + thread + n * threads;
    unsigned int h[8];
    for (int i = 0; i < 8; ++i) h[i] = middle[i];
    m[3] = nonce;
    compress(h, m, 640);
    if (n == 0 || h[0] < best[0]) {
      for (int i = 0; i < 8; ++i) best[i] = h[i];
      best_nonce = nonce;
    }
  }
  nonces[thread] = best_nonce;
  for (int i = 0; i < 8; ++i) digests[8 * thread + i] = best[i];
}
