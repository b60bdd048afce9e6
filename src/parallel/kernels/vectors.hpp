// What layers do with vectors, one text for host and device.  Elements are independent of each other, or are added up
// as integers, so the bits depend neither on the team's size nor on who has which element.  Compiled without
// contraction.
#pragma once

#include <math.h>

#include "src/exec/kernels/team.hpp"

namespace tutti::parallel::kernels {

using tutti::kernels::HostTeam;

/// One thread on the host: loops that a compiler can make vectors of.
struct Alone {
  static constexpr uint64_t index() { return 0; }
  static constexpr uint64_t size() { return 1; }
};

TUTTI_HD void addAtomically(uint64_t* word, uint64_t more) {
#ifdef __CUDA_ARCH__
  atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(more));
#else
  __atomic_fetch_add(word, more, __ATOMIC_RELAXED);
#endif
}
/// As addAtomically by every thread of a kernel; those of a warp add up first.
TUTTI_HD void addFromAll(uint64_t* word, uint64_t more) {
#ifdef __CUDA_ARCH__
  for (int distance = 16; distance > 0; distance /= 2) more += __shfl_xor_sync(0xffffffffu, more, distance);
  if (threadIdx.x % 32 != 0) return;
#endif
  addAtomically(word, more);
}

/// out[i] and in[i] for i < count; `by` as the kernel says.  All in the memory of the device that runs it.
struct VectorCall {
  void* out;
  const void* in;
  uint64_t count;
  double by;
};
static_assert(sizeof(VectorCall) == 32, "host and device agree on the layout");

/// out *= by.
template <class T, class Team>
TUTTI_HD void scaleVector(Team team, const VectorCall& c) {
  T* x = static_cast<T*>(c.out);
  const T by = static_cast<T>(c.by);
  for (uint64_t i = team.index(); i < c.count; i += team.size()) x[i] *= by;
}

/// out = by.
template <class T, class Team>
TUTTI_HD void fillVector(Team team, const VectorCall& c) {
  const T by = static_cast<T>(c.by);
  for (uint64_t i = team.index(); i < c.count; i += team.size()) static_cast<T*>(c.out)[i] = by;
}

/// out += in.
template <class T, class Team>
TUTTI_HD void addVector(Team team, const VectorCall& c) {
  T* into = static_cast<T*>(c.out);
  const T* from = static_cast<const T*>(c.in);
  for (uint64_t i = team.index(); i < c.count; i += team.size()) into[i] += from[i];
}

/// To nearest, ties to even; what is not a number stays none.
TUTTI_HD uint16_t roundToBf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
TUTTI_HD float widenBf16(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// out [count] of bfloat16 = in [count] of T.
template <class T, class Team>
TUTTI_HD void narrowVector(Team team, const VectorCall& c) {
  uint16_t* to = static_cast<uint16_t*>(c.out);
  const T* from = static_cast<const T*>(c.in);
  for (uint64_t i = team.index(); i < c.count; i += team.size()) to[i] = roundToBf16(static_cast<float>(from[i]));
}
/// out [count] of float = in [count] of bfloat16.
template <class Team>
TUTTI_HD void widenVector(Team team, const VectorCall& c) {
  float* to = static_cast<float*>(c.out);
  const uint16_t* from = static_cast<const uint16_t*>(c.in);
  for (uint64_t i = team.index(); i < c.count; i += team.size()) to[i] = widenBf16(from[i]);
}

/// out [count] of float -= in; 0 where that is no finite number.
template <class Team>
TUTTI_HD void restOfVector(Team team, const VectorCall& c) {
  float* from = static_cast<float*>(c.out);
  const float* part = static_cast<const float*>(c.in);
  for (uint64_t i = team.index(); i < c.count; i += team.size()) {
    const float rest = from[i] - part[i];
    from[i] = fabsf(rest) < HUGE_VALF ? rest : 0;
  }
}

inline constexpr uint64_t kInt8Block = 256;  // elements under one scale; encoded they follow it

/// Blocks of float, in, as a scale and bytes each, out; count is of blocks.  A thread has a block.
template <class Team>
TUTTI_HD void encodeBlocks(Team team, const VectorCall& c) {
  for (uint64_t b = team.index(); b < c.count; b += team.size()) {
    const float* from = static_cast<const float*>(c.in) + b * kInt8Block;
    unsigned char* to = static_cast<unsigned char*>(c.out) + b * (kInt8Block + 4);
    float most = 0;
    for (uint64_t i = 0; i < kInt8Block; ++i) {
      const float size = from[i] != from[i] ? HUGE_VALF : fabsf(from[i]);
      most = most < size ? size : most;
    }
    const float scale = most / 127;
    memcpy(to, &scale, sizeof scale);
    const bool usable = scale > 0 && scale < HUGE_VALF;
    for (uint64_t i = 0; i < kInt8Block; ++i) {
      float x = usable ? nearbyintf(from[i] / scale) : 1;
      x = x < -127 ? -127 : x > 127 ? 127 : x;
      to[4 + i] = static_cast<unsigned char>(static_cast<int8_t>(x));
    }
  }
}
/// The way back.
template <class Team>
TUTTI_HD void decodeBlocks(Team team, const VectorCall& c) {
  const uint64_t elements = c.count * kInt8Block;
  for (uint64_t i = team.index(); i < elements; i += team.size()) {
    const unsigned char* block = static_cast<const unsigned char*>(c.in) + i / kInt8Block * (kInt8Block + 4);
    float scale;
    memcpy(&scale, block, sizeof scale);
    static_cast<float*>(c.out)[i] = scale * static_cast<float>(static_cast<int8_t>(block[4 + i % kInt8Block]));
  }
}

/// One step of an optimizer on `count` elements.
struct UpdateCall {
  void *values, *first, *second;  // states: NULL where the kind has fewer
  const void* gradient;
  const double* clip;  // further factor of the gradient, in the device's memory; NULL: 1
  uint64_t count;
  double rate, decay, beta1, beta2, epsilon, fix1, fix2, scale;
  uint64_t kind;  // tuttiOptimizerKind_t
};
static_assert(sizeof(UpdateCall) == 120, "host and device agree on the layout");

template <class T, class Team>
TUTTI_HD void updateVector(Team team, const UpdateCall& c) {
  T *w = static_cast<T*>(c.values), *first = static_cast<T*>(c.first), *second = static_cast<T*>(c.second);
  const T* g = static_cast<const T*>(c.gradient);
  const T rate = static_cast<T>(c.rate), scale = static_cast<T>(c.clip != nullptr ? *c.clip : c.scale);
  const T decay = static_cast<T>(c.decay), epsilon = static_cast<T>(c.epsilon);
  const T b1 = static_cast<T>(c.beta1), b2 = static_cast<T>(c.beta2);
  const T fix1 = static_cast<T>(c.fix1), fix2 = static_cast<T>(c.fix2);
  for (uint64_t i = team.index(); i < c.count; i += team.size()) {
    const T gradient = g[i] * scale;
    T change = gradient;
    if (c.kind == 1) change = first[i] = b1 * first[i] + gradient;
    if (c.kind == 2) {
      first[i] = b1 * first[i] + (1 - b1) * gradient;
      second[i] = b2 * second[i] + (1 - b2) * gradient * gradient;
      change = first[i] / fix1 / (sqrt(second[i] / fix2) + epsilon);
    }
    w[i] = w[i] - decay * w[i] - rate * change;
  }
}

inline constexpr int kLimbs = 6;  // four of 32 bits, how many infinities, how many that are no numbers

/// limbs += the squares of x [count], in units of 2^-80: an exact integer in limbs that can be added without carries.
struct SquaresCall {
  const void* x;
  uint64_t* limbs;  // [kLimbs]
  uint64_t count;
};
static_assert(sizeof(SquaresCall) == 24, "host and device agree on the layout");

/// Units of 2^-80 in square < 2^40, rounded down.
TUTTI_HD unsigned __int128 unitsOf(double square) {
  uint64_t bits;
  memcpy(&bits, &square, sizeof bits);
  const int exponent = static_cast<int>(bits >> 52);  // of 2^(exponent - 1075) for the lowest bit of the mantissa
  const uint64_t mantissa = exponent == 0 ? bits : (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  const int shift = (exponent == 0 ? 1 : exponent) - 1075 + 80;
  if (shift <= -64) return 0;
  return shift < 0 ? mantissa >> -shift : static_cast<unsigned __int128>(mantissa) << shift;
}

template <class T, class Team>
TUTTI_HD void addSquaresOf(Team team, const SquaresCall& c) {
  unsigned __int128 units = 0;
  uint64_t infinite = 0, noNumbers = 0;
  for (uint64_t i = team.index(); i < c.count; i += team.size()) {
    const double x = static_cast<double>(static_cast<const T*>(c.x)[i]), square = x * x;
    if (square < 0x1p40) {
      units += unitsOf(square);
    } else {
      ++(x != x ? noNumbers : infinite);
    }
  }
  for (int l = 0; l < 4; ++l) addFromAll(c.limbs + l, static_cast<uint64_t>(units >> (32 * l)) & 0xffffffffu);
  addFromAll(c.limbs + 4, infinite);
  addFromAll(c.limbs + 5, noNumbers);
}

/// The number that limbs of all ranks are together.
TUTTI_HD double numberOf(const uint64_t* limbs) {
  uint64_t l[4] = {limbs[0], limbs[1], limbs[2], limbs[3]};
  for (int low = 0; low < 3; ++low) {  // carries first, so that the limbs are those of the one integer
    l[low + 1] += l[low] >> 32;
    l[low] &= 0xffffffffu;
  }
  double sum = static_cast<double>(l[3]) * 0x1p16;
  sum += static_cast<double>(l[2]) * 0x1p-16;
  sum += static_cast<double>(l[1]) * 0x1p-48;
  sum += static_cast<double>(l[0]) * 0x1p-80;
  if (limbs[5] != 0) return static_cast<double>(NAN);
  return limbs[4] != 0 ? static_cast<double>(INFINITY) : sum;
}

/// What a gradient is multiplied by so that it is no longer than `most`; 0: any length.
TUTTI_HD double clipOf(double length, double most) { return most > 0 && length > most ? most / length : 1; }

struct ClipCall {
  const uint64_t* limbs;  // of the squares
  double* out;            // [2]: the length; what to multiply by
  double most;
};
static_assert(sizeof(ClipCall) == 24, "host and device agree on the layout");

template <class Team>
TUTTI_HD void clipLength(Team team, const ClipCall& c) {
  if (team.index() != 0) return;
  c.out[0] = sqrt(numberOf(c.limbs));
  c.out[1] = clipOf(c.out[0], c.most);
}

/// *sum += a hash of each element's bits, position and key: SplitMix64's finalizer (Steele, Lea, Flood, 2014).
struct HashCall {
  const unsigned char* x;
  uint64_t* sum;
  uint64_t count, bytes;  // of an element
  uint64_t key, first;
};
static_assert(sizeof(HashCall) == 48, "host and device agree on the layout");

template <class Team>
TUTTI_HD void addHashOf(Team team, const HashCall& c) {
  uint64_t sum = 0;
  for (uint64_t i = team.index(); i < c.count; i += team.size()) {
    uint64_t bits = 0;
    for (uint64_t b = 0; b < c.bytes; ++b) bits |= uint64_t{c.x[i * c.bytes + b]} << (8 * b);
    uint64_t x = bits * 0x9e3779b97f4a7c15u + (c.first + i) * 0xd1342543de82ef95u + c.key;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    sum += x ^ (x >> 31);
  }
  addFromAll(c.sum, sum);
}

}  // namespace tutti::parallel::kernels
