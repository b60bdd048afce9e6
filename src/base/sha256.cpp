#include "src/base/sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/secret.hpp"

namespace tutti {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t loadBig(const unsigned char* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

void expand(const unsigned char* data, uint32_t* w) {
  for (size_t i = 0; i < 16; ++i) w[i] = loadBig(data + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    const uint32_t s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3);
    const uint32_t s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
}

/// What compression leaves on the stack below its caller.
[[gnu::noinline]] void burnStack() {
  char below[1024];
  wipe(below, sizeof below);
}

}  // namespace

void Sha256::block(const unsigned char* data) {
  uint32_t w[64];  // plain arrays here: a sanitized build calls a function for each element of others
  expand(data, w);
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<uint32_t, 8> sum = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += sum[i];
}

Sha256& Sha256::add(std::string_view data) {
  while (!data.empty()) {
    const size_t at = bytes_ % pending_.size();
    const size_t n = std::min(data.size(), pending_.size() - at);
    std::memcpy(pending_.data() + at, data.data(), n);
    bytes_ += n;
    data.remove_prefix(n);
    if (at + n == pending_.size()) block(pending_.data());
  }
  return *this;
}

// A 1 bit, zeros until 8 bytes short of a block, and the length in bits.
Digest Sha256::finish() {
  const uint64_t bits = bytes_ * 8;
  static constexpr std::array<char, 64> kPadding = {'\x80'};
  add({kPadding.data(), 1 + (2 * pending_.size() - 9 - bytes_ % pending_.size()) % pending_.size()});
  std::array<char, 8> length;
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(bits >> (56 - 8 * i));
  add({length.data(), length.size()});
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<unsigned char>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

Digest hmacSha256(std::string_view key, std::string_view data) {
  std::array<char, 64> inner{}, outer{};
  Digest hashed;
  if (key.size() > inner.size()) {
    hashed = Sha256().add(key).finish();
    key = {reinterpret_cast<const char*>(hashed.data()), hashed.size()};
  }
  std::memcpy(inner.data(), key.data(), key.size());
  for (size_t i = 0; i < inner.size(); ++i) {
    outer[i] = static_cast<char>(inner[i] ^ 0x5c);
    inner[i] = static_cast<char>(inner[i] ^ 0x36);
  }
  Sha256 within, around;
  const Digest first = within.add({inner.data(), inner.size()}).add(data).finish();
  around.add({outer.data(), outer.size()}).add({reinterpret_cast<const char*>(first.data()), first.size()});
  const Digest mac = around.finish();
  wipe(hashed);
  wipe(inner);
  wipe(outer);
  wipe(&within, sizeof within);
  wipe(&around, sizeof around);
  burnStack();
  return mac;
}

bool sameDigest(const Digest& a, const Digest& b) {
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned>(a[i] ^ b[i]);
    __asm__ volatile("" : "+r"(different));  // the compiler may not leave the loop early
  }
  return different == 0;
}

}  // namespace tutti
