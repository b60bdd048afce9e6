#include "src/base/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

// ---- Polynomials modulo that one: bit 31 is the coefficient of x^0.

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

constexpr uint32_t powerOfX(uint64_t n) {
  uint32_t power = 1u << 31, square = 1u << 30;
  for (; n > 0; n >>= 1) {
    if ((n & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

// ---- Without instructions.

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b]: the remainder of byte b with k zero bytes behind it, for eight bytes at once ("slicing by 8").
constexpr Tables makeTables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = makeTables();

#if defined(__x86_64__)

// ---- By the instruction for it: three chains side by side, as one waits three cycles for each of its results.

// A remainder with so many zero bytes behind it, byte by byte of the remainder.
template <size_t zeros>
struct Shift {
  std::array<std::array<uint32_t, 256>, 4> tables{};
  constexpr Shift() {
    const uint32_t power = powerOfX(8 * zeros);
    for (size_t k = 0; k < 4; ++k) {
      for (uint32_t b = 0; b < 256; ++b) tables[k][b] = multiply(b << (8 * k), power);
    }
  }
  uint32_t operator()(uint32_t crc) const {
    return tables[0][crc & 255] ^ tables[1][(crc >> 8) & 255] ^ tables[2][(crc >> 16) & 255] ^ tables[3][crc >> 24];
  }
};

constexpr size_t kLongChain = 2048, kShortChain = 256;
template <size_t zeros>
constexpr Shift<zeros> kShift;

#define TUTTI_BY_INSTRUCTION __attribute__((target("sse4.2")))

// Eight bytes of a chain, copied on the way where Copies; else `to` is null.
template <bool Copies>
TUTTI_BY_INSTRUCTION inline uint64_t takeWord(const unsigned char* from, unsigned char* to, size_t at, uint64_t state) {
  uint64_t word;
  std::memcpy(&word, from + at, 8);
  if (Copies) std::memcpy(to + at, &word, 8);
  return __builtin_ia32_crc32di(state, word);
}

// As many blocks of three chains as there are.
template <bool Copies, size_t chain>
TUTTI_BY_INSTRUCTION inline uint64_t takeChains(const unsigned char*& p, unsigned char*& to, size_t& bytes,
                                                uint64_t a) {
  for (; bytes >= 3 * chain; bytes -= 3 * chain) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < chain; i += 8) {
      a = takeWord<Copies>(p, to, i, a);
      b = takeWord<Copies>(p, to, chain + i, b);
      c = takeWord<Copies>(p, to, 2 * chain + i, c);
    }
    const Shift<chain>& shift = kShift<chain>;
    a = shift(shift(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^ static_cast<uint32_t>(c);
    p += 3 * chain;
    to += Copies ? 3 * chain : 0;
  }
  return a;
}

template <bool Copies>
TUTTI_BY_INSTRUCTION uint32_t byInstruction(const unsigned char* p, unsigned char* to, size_t bytes, uint32_t crc) {
  uint64_t state = ~crc;
  state = takeChains<Copies, kLongChain>(p, to, bytes, state);
  state = takeChains<Copies, kShortChain>(p, to, bytes, state);
  for (; bytes >= 8; p += 8, to += Copies ? 8 : 0, bytes -= 8) state = takeWord<Copies>(p, to, 0, state);
  auto rest = static_cast<uint32_t>(state);
  for (; bytes > 0; ++p, to += Copies ? 1 : 0, --bytes) {
    if (Copies) *to = *p;
    rest = __builtin_ia32_crc32qi(rest, *p);
  }
  return ~rest;
}

// ---- By products of 64 bytes at once (Gopal and others, "Fast CRC computation for generic polynomials using PCLMULQDQ
// instruction", Intel 2009), with four remainders side by side.

#define TUTTI_BY_PRODUCTS __attribute__((target("avx512f,avx512dq,avx512vl,vpclmulqdq,pclmul,sse4.2")))

constexpr size_t kLeastForProducts = 1024;

// What the halves of 16 bytes are multiplied with to stand so many bits further on.
TUTTI_BY_PRODUCTS inline __m128i factors(uint64_t bits) {
  const auto factor = [](uint64_t power) { return static_cast<long long>(uint64_t{powerOfX(power)} << 1); };
  return _mm_set_epi64x(factor(bits - 32), factor(bits + 32));
}

TUTTI_BY_PRODUCTS inline __m512i advance(__m512i v, __m512i by, __m512i add) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(v, by, 0x00), _mm512_clmulepi64_epi128(v, by, 0x11), add,
                                   kXorOfThree);
}

TUTTI_BY_PRODUCTS inline __m128i advance(__m128i v, __m128i by, __m128i add) {
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(v, by, 0x00), _mm_clmulepi64_si128(v, by, 0x11)), add);
}

// Not the plain intrinsic, in which GCC 12 sees a variable that nobody has set.
TUTTI_BY_PRODUCTS inline __m512i broadcast(__m128i v) { return _mm512_maskz_broadcast_i32x4(0xffff, v); }

template <bool Copies>
TUTTI_BY_PRODUCTS inline __m512i take64(const unsigned char* from, unsigned char* to, size_t at) {
  const __m512i v = _mm512_loadu_si512(from + at);
  if (Copies) _mm512_storeu_si512(to + at, v);
  return v;
}

template <bool Copies>
TUTTI_BY_PRODUCTS uint32_t byProducts(const unsigned char* p, unsigned char* to, size_t bytes, uint32_t crc) {
  static const __m128i kBy2048 = factors(2048), kBy512 = factors(512), kBy128 = factors(128);
  const __m512i by2048 = broadcast(kBy2048), by512 = broadcast(kBy512);
  const __m512i begin = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc)));
  __m512i a = _mm512_xor_si512(take64<Copies>(p, to, 0), begin), b = take64<Copies>(p, to, 64);
  __m512i c = take64<Copies>(p, to, 128), d = take64<Copies>(p, to, 192);
  size_t at = 256;
  for (; at + 256 <= bytes; at += 256) {
    a = advance(a, by2048, take64<Copies>(p, to, at));
    b = advance(b, by2048, take64<Copies>(p, to, at + 64));
    c = advance(c, by2048, take64<Copies>(p, to, at + 128));
    d = advance(d, by2048, take64<Copies>(p, to, at + 192));
  }
  a = advance(advance(advance(a, by512, b), by512, c), by512, d);
  __m128i parts[4];
  _mm512_storeu_si512(parts, a);
  const __m128i x = advance(advance(advance(parts[0], kBy128, parts[1]), kBy128, parts[2]), kBy128, parts[3]);
  uint64_t state = __builtin_ia32_crc32di(0, static_cast<uint64_t>(_mm_extract_epi64(x, 0)));
  state = __builtin_ia32_crc32di(state, static_cast<uint64_t>(_mm_extract_epi64(x, 1)));
  return byInstruction<Copies>(p + at, to + (Copies ? at : 0), bytes - at, ~static_cast<uint32_t>(state));
}

bool hasProducts() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                          __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
  return has;
}

bool hasInstruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}
#endif

template <bool Copies>
uint32_t byFastest(const void* from, void* to, size_t bytes, uint32_t crc) {
#if defined(__x86_64__)
  const auto* p = static_cast<const unsigned char*>(from);
  auto* out = static_cast<unsigned char*>(to);
  if (bytes >= kLeastForProducts && hasProducts()) return byProducts<Copies>(p, out, bytes, crc);
  if (hasInstruction()) return byInstruction<Copies>(p, out, bytes, crc);
#endif
  if (Copies && bytes > 0) std::memcpy(to, from, bytes);
  return crc32cByTable(from, bytes, crc);
}

}  // namespace

uint32_t crc32cByTable(const void* data, size_t bytes, uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; std::endian::native == std::endian::little && bytes >= 8; p += 8, bytes -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 255];
  }
  for (; bytes > 0; ++p, --bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 255];
  return ~crc;
}

uint32_t crc32cByInstruction(const void* data, size_t bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (hasInstruction()) return byInstruction<false>(static_cast<const unsigned char*>(data), nullptr, bytes, crc);
#endif
  return crc32cByTable(data, bytes, crc);
}

uint32_t crc32c(const void* data, size_t bytes, uint32_t crc) { return byFastest<false>(data, nullptr, bytes, crc); }

uint32_t crc32cCopy(void* dst, const void* src, size_t bytes, uint32_t crc) {
  return byFastest<true>(src, dst, bytes, crc);
}

}  // namespace tutti
