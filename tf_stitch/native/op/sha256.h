// SHA-256 (FIPS 180-4), for what a converted SavedModel carries.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace tf_stitch {

class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  static Digest Of(const void* data, std::size_t bytes) {
    Sha256 sha;
    const auto* at = static_cast<const std::uint8_t*>(data);
    const std::size_t whole = bytes / 64 * 64;
    for (std::size_t i = 0; i < whole; i += 64) sha.Block(at + i);
    std::uint8_t tail[128] = {};
    const std::size_t rest = bytes - whole;
    if (rest != 0) std::memcpy(tail, at + whole, rest);
    tail[rest] = 0x80;
    const std::size_t blocks = rest < 56 ? 1 : 2;
    for (int i = 0; i < 8; ++i) {
      tail[blocks * 64 - 1 - i] = static_cast<std::uint8_t>((static_cast<std::uint64_t>(bytes) * 8) >> (8 * i));
    }
    for (std::size_t i = 0; i < blocks; ++i) sha.Block(tail + 64 * i);
    Digest digest;
    for (int i = 0; i < 32; ++i) digest[i] = static_cast<std::uint8_t>(sha.state_[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
  }

  static std::string Hex(const Digest& digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : digest) {
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
    return text;
  }

 private:
  static std::uint32_t Rotate(std::uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

  void Block(const std::uint8_t* data) {
    static constexpr std::uint32_t kRounds[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    std::uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      w[i] = std::uint32_t{data[4 * i]} << 24 | std::uint32_t{data[4 * i + 1]} << 16 |
             std::uint32_t{data[4 * i + 2]} << 8 | data[4 * i + 3];
    }
    for (int i = 16; i < 64; ++i) {
      const std::uint32_t a = Rotate(w[i - 15], 7) ^ Rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const std::uint32_t b = Rotate(w[i - 2], 17) ^ Rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    std::array<std::uint32_t, 8> s = state_;
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t e = Rotate(s[4], 6) ^ Rotate(s[4], 11) ^ Rotate(s[4], 25);
      const std::uint32_t one = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRounds[i] + w[i];
      const std::uint32_t a = Rotate(s[0], 2) ^ Rotate(s[0], 13) ^ Rotate(s[0], 22);
      const std::uint32_t two = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      s = {one + two, s[0], s[1], s[2], s[3] + one, s[4], s[5], s[6]};
    }
    for (int i = 0; i < 8; ++i) state_[i] += s[i];
  }

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

}  // namespace tf_stitch
