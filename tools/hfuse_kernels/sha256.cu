// SHA-256 twice of an 80-byte header whose last word is a nonce (FIPS 180-4), as Bitcoin's proof of work has it. A thread
// tries `tries` nonces, that many apart as there are threads, and keeps the digest that is the smallest, and its nonce: of
// the digests' first words, as big-endian numbers; the first of equal ones. Words of the header are big-endian numbers.
// Blocks of 256 threads.
__constant__ const unsigned int SHA256_K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ __forceinline__ unsigned int rotated(unsigned int x, int by) { return x >> by | x << (32 - by); }

__device__ __forceinline__ void start(unsigned int* state) {
  state[0] = 0x6a09e667, state[1] = 0xbb67ae85, state[2] = 0x3c6ef372, state[3] = 0xa54ff53a;
  state[4] = 0x510e527f, state[5] = 0x9b05688c, state[6] = 0x1f83d9ab, state[7] = 0x5be0cd19;
}

__device__ __forceinline__ void compress(unsigned int* state, unsigned int* w) {
  unsigned int a = state[0], b = state[1], c = state[2], d = state[3];
  unsigned int e = state[4], f = state[5], g = state[6], h = state[7];
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    if (i >= 16) {
      const unsigned int early = w[(i + 1) % 16], late = w[(i + 14) % 16];
      w[i % 16] += (rotated(early, 7) ^ rotated(early, 18) ^ early >> 3) + w[(i + 9) % 16] +
                   (rotated(late, 17) ^ rotated(late, 19) ^ late >> 10);
    }
    const unsigned int one = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) + SHA256_K[i] + w[i % 16];
    const unsigned int two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one;
    d = c, c = b, b = a, a = one + two;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

extern "C" __global__ void __launch_bounds__(256) sha256(const unsigned int* __restrict__ header, unsigned int first, int tries,
                                                         unsigned int* __restrict__ nonces, unsigned int* __restrict__ digests) {
  const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  unsigned int middle[8], w[16], best[8], best_nonce = first + thread;
  start(middle);
  for (int i = 0; i < 16; ++i) w[i] = header[i];
  compress(middle, w);
  for (int i = 0; i < 8; ++i) best[i] = 0xffffffffu;
  for (int n = 0; n < tries; ++n) {
    const unsigned int nonce = first + thread + n * threads;
    unsigned int state[8];
    for (int i = 0; i < 8; ++i) state[i] = middle[i];
    w[0] = header[16], w[1] = header[17], w[2] = header[18], w[3] = nonce;
    w[4] = 0x80000000u;
    for (int i = 5; i < 15; ++i) w[i] = 0;
    w[15] = 640;
    compress(state, w);
    for (int i = 0; i < 8; ++i) w[i] = state[i];
    w[8] = 0x80000000u;
    for (int i = 9; i < 15; ++i) w[i] = 0;
    w[15] = 256;
    start(state);
    compress(state, w);
    if (n == 0 || state[0] < best[0]) {
      for (int i = 0; i < 8; ++i) best[i] = state[i];
      best_nonce = nonce;
    }
  }
  nonces[thread] = best_nonce;
  for (int i = 0; i < 8; ++i) digests[8 * thread + i] = best[i];
}
