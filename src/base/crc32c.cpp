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

// Eight bytes of a chain, copied `by` bytes further where Copies.
template <bool Copies>
TUTTI_BY_INSTRUCTION inline uint64_t takeWord(const unsigned char* from, std::ptrdiff_t by, uint64_t state) {
  uint64_t word;
  std::memcpy(&word, from, 8);
  if (Copies) std::memcpy(const_cast<unsigned char*>(from) + by, &word, 8);
  return __builtin_ia32_crc32di(state, word);
}

template <size_t chain>
uint32_t joinChains(uint64_t a, uint64_t b, uint64_t c) {
  const Shift<chain>& shift = kShift<chain>;
  return shift(shift(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^ static_cast<uint32_t>(c);
}

// As many blocks of three chains as there are.
template <bool Copies, size_t chain>
TUTTI_BY_INSTRUCTION inline uint64_t takeChains(const unsigned char*& p, size_t& bytes, std::ptrdiff_t by, uint64_t a) {
  for (; bytes >= 3 * chain; bytes -= 3 * chain) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < chain; i += 8) {
      a = takeWord<Copies>(p + i, by, a);
      b = takeWord<Copies>(p + chain + i, by, b);
      c = takeWord<Copies>(p + 2 * chain + i, by, c);
    }
    a = joinChains<chain>(a, b, c);
    p += 3 * chain;
  }
  return a;
}

template <bool Copies>
TUTTI_BY_INSTRUCTION uint32_t byInstruction(const unsigned char* p, std::ptrdiff_t by, size_t bytes, uint32_t crc) {
  uint64_t state = ~crc;
  state = takeChains<Copies, kLongChain>(p, bytes, by, state);
  state = takeChains<Copies, kShortChain>(p, bytes, by, state);
  for (; bytes >= 8; p += 8, bytes -= 8) state = takeWord<Copies>(p, by, state);
  auto rest = static_cast<uint32_t>(state);
  for (; bytes > 0; ++p, --bytes) {
    if (Copies) const_cast<unsigned char*>(p)[by] = *p;
    rest = __builtin_ia32_crc32qi(rest, *p);
  }
  return ~rest;
}

// ---- By both at once, which different units of a core do: three chains, and products of 16 bytes behind them.

#define TUTTI_BY_BOTH __attribute__((target("pclmul,sse4.2")))

constexpr size_t kTurns = 42;  // of 24 bytes of each chain and 64 by products
constexpr size_t kMixedChain = 24 * kTurns, kMixedProducts = 64 * kTurns;
constexpr size_t kMixedBlock = 3 * kMixedChain + kMixedProducts;

// What the halves of 16 bytes are multiplied with to stand so many bits further on.
TUTTI_BY_BOTH inline __m128i factors(uint64_t bits) {
  const auto factor = [](uint64_t power) { return static_cast<long long>(uint64_t{powerOfX(power)} << 1); };
  return _mm_set_epi64x(factor(bits - 32), factor(bits + 32));
}

TUTTI_BY_BOTH inline __m128i advance(__m128i v, __m128i by, __m128i add) {
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(v, by, 0x00), _mm_clmulepi64_si128(v, by, 0x11)), add);
}

TUTTI_BY_BOTH inline __m128i take16(const unsigned char* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// The remainder of 16 bytes.
TUTTI_BY_BOTH inline uint64_t remainderOf(__m128i x) {
  const uint64_t state = __builtin_ia32_crc32di(0, static_cast<uint64_t>(_mm_cvtsi128_si64(x)));
  return __builtin_ia32_crc32di(state, static_cast<uint64_t>(_mm_extract_epi64(x, 1)));
}

TUTTI_BY_BOTH uint64_t takeMixedBlock(const unsigned char* p, uint64_t a) {
  static const __m128i kBy512 = factors(512), kBy128 = factors(128);
  const __m128i by512 = kBy512;
  const unsigned char* q = p + 3 * kMixedChain;
  __m128i v = _mm_setzero_si128(), w = v, x = v, y = v;
  uint64_t b = 0, c = 0;
  for (size_t turn = 0; turn < kTurns; ++turn, p += 24, q += 64) {
    v = advance(v, by512, take16(q));
    a = takeWord<false>(p, 0, a);
    b = takeWord<false>(p + kMixedChain, 0, b);
    c = takeWord<false>(p + 2 * kMixedChain, 0, c);
    w = advance(w, by512, take16(q + 16));
    a = takeWord<false>(p + 8, 0, a);
    b = takeWord<false>(p + kMixedChain + 8, 0, b);
    c = takeWord<false>(p + 2 * kMixedChain + 8, 0, c);
    x = advance(x, by512, take16(q + 32));
    a = takeWord<false>(p + 16, 0, a);
    b = takeWord<false>(p + kMixedChain + 16, 0, b);
    c = takeWord<false>(p + 2 * kMixedChain + 16, 0, c);
    y = advance(y, by512, take16(q + 48));
  }
  const uint64_t products = remainderOf(advance(advance(advance(v, kBy128, w), kBy128, x), kBy128, y));
  return kShift<kMixedProducts>(joinChains<kMixedChain>(a, b, c)) ^ products;
}

TUTTI_BY_BOTH uint32_t byBoth(const unsigned char* p, size_t bytes, uint32_t crc) {
  uint64_t state = ~crc;
  for (; bytes >= kMixedBlock; p += kMixedBlock, bytes -= kMixedBlock) state = takeMixedBlock(p, state);
  return byInstruction<false>(p, 0, bytes, ~static_cast<uint32_t>(state));
}

// ---- By products of 64 bytes at once (Gopal and others, "Fast CRC computation for generic polynomials using PCLMULQDQ
// instruction", Intel 2009), with four remainders side by side.

#define TUTTI_BY_PRODUCTS __attribute__((target("avx512f,avx512dq,avx512vl,vpclmulqdq,pclmul,sse4.2")))

constexpr size_t kLeastForProducts = 1024;

TUTTI_BY_PRODUCTS inline __m512i advance(__m512i v, __m512i by, __m512i add) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(v, by, 0x00), _mm512_clmulepi64_epi128(v, by, 0x11), add,
                                   kXorOfThree);
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
  return byInstruction<Copies>(p + at, Copies ? to - p : 0, bytes - at, ~static_cast<uint32_t>(remainderOf(x)));
}

bool hasProducts() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                          __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
  return has;
}

bool hasBoth() {
  static const bool has = __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

bool hasInstruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}
#endif

template <bool Copies>
uint32_t byFastest(const unsigned char* p, unsigned char* to, size_t bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (bytes >= kLeastForProducts && hasProducts()) return byProducts<Copies>(p, to, bytes, crc);
  // Copies wait for memory: neither this way nor the system's copy behind a checksum is faster.
  if (!Copies && bytes >= kMixedBlock && hasBoth()) return byBoth(p, bytes, crc);
  if (hasInstruction()) return byInstruction<Copies>(p, Copies ? to - p : 0, bytes, crc);
#endif
  if (Copies && bytes > 0) std::memcpy(to, p, bytes);
  return crc32cByTable(p, bytes, crc);
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
  if (hasInstruction()) return byInstruction<false>(static_cast<const unsigned char*>(data), 0, bytes, crc);
#endif
  return crc32cByTable(data, bytes, crc);
}

uint32_t crc32c(const void* data, size_t bytes, uint32_t crc) {
  return byFastest<false>(static_cast<const unsigned char*>(data), nullptr, bytes, crc);
}

uint32_t crc32cCopy(void* dst, const void* src, size_t bytes, uint32_t crc) {
  return byFastest<true>(static_cast<const unsigned char*>(src), static_cast<unsigned char*>(dst), bytes, crc);
}

}  // namespace tutti
