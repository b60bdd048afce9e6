#include "src/parallel/wire.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tutti::parallel {
namespace {

void encodeBlock(const float* from, unsigned char* to) {
  float most = 0;
  for (int64_t i = 0; i < kInt8Block; ++i) most = std::max(most, std::isnan(from[i]) ? INFINITY : std::abs(from[i]));
  const float scale = most / 127;
  std::memcpy(to, &scale, sizeof(scale));
  for (int64_t i = 0; i < kInt8Block; ++i) {
    const float x = std::isfinite(scale) && scale > 0 ? std::nearbyint(from[i] / scale) : 1;
    to[4 + i] = static_cast<unsigned char>(static_cast<int8_t>(std::clamp(x, -127.0f, 127.0f)));
  }
}

void decodeBlock(const unsigned char* from, float* to) {
  float scale;
  std::memcpy(&scale, from, sizeof(scale));
  for (int64_t i = 0; i < kInt8Block; ++i) to[i] = scale * static_cast<float>(static_cast<int8_t>(from[4 + i]));
}

/// Elements of a rank's slice: the same for all, so that encoded blocks do not straddle ranks.
int64_t sliceOf(const Group& group, tuttiWire_t wire, int64_t count) {
  const int64_t unit = blockOf(wire) * group.size();
  return (count + unit - 1) / unit * blockOf(wire);
}

}  // namespace

uint16_t toBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);  // to nearest, ties to even
}
float fromBf16(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

int64_t blockOf(tuttiWire_t wire) { return wire == tuttiWireInt8 ? kInt8Block : 1; }

int64_t encodedBytes(tuttiWire_t wire, int64_t n) {
  return wire == tuttiWireInt8 ? n / kInt8Block * (kInt8Block + 4) : wire == tuttiWireBf16 ? 2 * n : 4 * n;
}

void encode(tuttiWire_t wire, const float* from, int64_t n, unsigned char* to) {
  if (wire == tuttiWireInt8) {
    for (int64_t b = 0; b < n / kInt8Block; ++b) encodeBlock(from + b * kInt8Block, to + b * (kInt8Block + 4));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t x = toBf16(from[i]);
    std::memcpy(to + 2 * i, &x, 2);
  }
}

void decode(tuttiWire_t wire, const unsigned char* from, int64_t n, float* to) {
  if (wire == tuttiWireInt8) {
    for (int64_t b = 0; b < n / kInt8Block; ++b) decodeBlock(from + b * (kInt8Block + 4), to + b * kInt8Block);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    uint16_t x;
    std::memcpy(&x, from + 2 * i, 2);
    to[i] = fromBf16(x);
  }
}

void encodedAllReduce(Group& group, tuttiWire_t wire, float* data, int64_t count) {
  if (group.size() == 1 || count == 0) return;
  const int64_t n = group.size(), slice = sliceOf(group, wire, count), bytes = encodedBytes(wire, slice);
  std::vector<float> padded(data, data + count), sum(static_cast<size_t>(slice)), one(sum.size());
  padded.resize(static_cast<size_t>(n * slice));
  std::vector<unsigned char> out(static_cast<size_t>(n * bytes)), in(out.size());
  encode(wire, padded.data(), n * slice, out.data());
  const std::vector<size_t> counts(static_cast<size_t>(n), static_cast<size_t>(bytes));
  group.allToAll(out.data(), counts, in.data(), counts, tuttiUint8);
  for (int64_t r = 0; r < n; ++r) {
    decode(wire, in.data() + r * bytes, slice, one.data());
    addInto(sum.data(), one.data(), sum.size());
  }
  encode(wire, sum.data(), slice, out.data() + group.rank() * bytes);
  std::vector<int64_t> cuts;
  for (int64_t r = 0; r <= n; ++r) cuts.push_back(r * bytes);
  group.allGather(out.data(), cuts.data(), tuttiUint8);
  decode(wire, out.data(), n * slice, padded.data());
  std::copy(padded.data(), padded.data() + count, data);
}

void predictEncoded(tuttiTraffic_t& traffic, const Group& group, tuttiWire_t wire, int64_t count) {
  if (group.size() == 1 || count == 0) return;
  const uint64_t bytes = static_cast<uint64_t>(encodedBytes(wire, sliceOf(group, wire, count)));
  const uint64_t n = static_cast<uint64_t>(group.size());
  countCall(traffic, tuttiCallAllToAllv, group.size(), (n - 1) * bytes);
  countCall(traffic, tuttiCallAllGather, group.size(), n * bytes);
}

}  // namespace tutti::parallel
