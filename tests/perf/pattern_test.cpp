#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "perf/common/pattern.hpp"

using namespace tutti::perf;

namespace {

std::vector<std::byte> encode(const TypeInfo& t, double v) {
  std::vector<std::byte> out(t.bytes);
  encodeElement(t, v, out.data());
  return out;
}

uint64_t bits(const char* type, double v) {
  const std::vector<std::byte> e = encode(*findType(type), v);
  uint64_t b = 0;
  std::memcpy(&b, e.data(), e.size());
  return b;
}

double decode8(const TypeInfo& t, std::byte b) {
  const int bits = static_cast<int>(b), fraction = t.significandBits - 1, bias = (1 << (t.exponentBits - 1)) - 1;
  const int exponent = bits >> fraction & ((1 << t.exponentBits) - 1);
  const int units = (bits & ((1 << fraction) - 1)) + (exponent > 0 ? 1 << fraction : 0);
  return std::ldexp(bits & 0x80 ? -units : units, std::max(exponent, 1) - bias - fraction);
}

}  // namespace

TEST_CASE("values are encoded as the formats say") {
  CHECK(bits("half", 1) == 0x3c00);
  CHECK(bits("half", -2048) == 0xe800);
  CHECK(bits("half", 1.0 / 3) == 0x3555);
  CHECK(bits("half", 5.9604644775390625e-8) == 1);  // smallest subnormal
  CHECK(bits("bfloat16", 256) == 0x4380);
  CHECK(bits("f8e4m3", 16) == 0x58);
  CHECK(bits("f8e4m3", -448) == 0xfe);
  CHECK(bits("f8e4m3", 17) == 0x58);      // a tie goes to even
  CHECK(bits("f8e4m3", 1.0 / 512) == 1);  // smallest subnormal
  CHECK(bits("f8e5m2", 8) == 0x48);
  CHECK(bits("f8e5m2", 1.0 / 3) == 0x35);
  CHECK(bits("float", -1.5) == 0xbfc00000);
  CHECK(bits("int8", -3) == 0xfd);
  CHECK(bits("uint16", 65535) == 0xffff);
  CHECK(bits("bool", 7) == 1);
}

TEST_CASE("sums of eight-bit floats are exact in any order up to 256 ranks") {
  const auto type = GENERATE(as<std::string>(), "f8e4m3", "f8e5m2");
  const int nRanks = GENERATE(2, 3, 8, 17, 255, 256);
  CAPTURE(type, nRanks);
  const TypeInfo& t = *findType(type);
  const ReducePattern p(t, *findOp("sum"), nRanks);
  std::vector<double> magnitudes(kTileElements), sums(kTileElements);
  for (int r = 0; r < nRanks; ++r) {
    const std::vector<std::byte> in = p.input(r);
    for (size_t i = 0; i < kTileElements; i += 41) {
      const double v = decode8(t, in[i]);
      magnitudes[i] += std::abs(v);
      sums[i] += v;
    }
  }
  for (size_t i = 0; i < kTileElements; i += 41) {
    CHECK(magnitudes[i] <= (1 << t.significandBits));
    CHECK(decode8(t, p.expected()[i]) == sums[i]);
  }
}

TEST_CASE("every rank's contribution matters for every operator and type") {
  const int nRanks = GENERATE(2, 5, 64);
  for (const TypeInfo& t : allTypes()) {
    for (const OpInfo& o : allOps()) {
      if (!opTakesType(o, t)) continue;
      CAPTURE(nRanks, t.name, o.name);
      const ReducePattern p(t, o, nRanks);
      // A rank is redundant if its tile is the same constant everywhere: then losing it could stay unseen.
      for (int r : {0, nRanks / 2, nRanks - 1}) {
        const std::vector<std::byte> in = p.input(r);
        bool constant = true;
        for (size_t i = 1; i < kTileElements && constant; ++i) {
          constant = std::memcmp(in.data(), in.data() + i * t.bytes, t.bytes) == 0;
        }
        CHECK_FALSE(constant);
      }
    }
  }
}

TEST_CASE("what was filled is right, and one changed element is one wrong element") {
  const TypeInfo& t = *findType(GENERATE(as<std::string>(), "int8", "half", "float", "double", "bool"));
  const size_t offset = GENERATE(0u, 1u, 3u);  // also unaligned
  const size_t count = GENERATE(1u, 1000u, 5000u, 20000u);
  std::vector<std::byte> memory(count * t.bytes + 8);
  std::byte* data = memory.data() + offset;
  const TravelKey key = travelKey(t, 3, 77);
  fillTravel(data, t.bytes, 500, count, key);
  CHECK(countWrongTravel(data, t.bytes, 500, count, key) == 0);
  data[(count - 1) * t.bytes] ^= std::byte{1};
  CHECK(countWrongTravel(data, t.bytes, 500, count, key) == 1);

  const std::vector<std::byte> tile = ReducePattern(t, *findOp("max"), 4).input(2);
  fillTiled(data, t.bytes, 4000, count, tile, 9);
  CHECK(countWrongTiled(data, t.bytes, 4000, count, tile, 9) == 0);
  data[count / 2 * t.bytes] ^= std::byte{1};
  CHECK(countWrongTiled(data, t.bytes, 4000, count, tile, 9) == 1);
}

TEST_CASE("another rank, another place or another call is seen") {
  const TypeInfo& t = *findType("float");
  const size_t count = 30000;
  std::vector<float> data(count);
  fillTravel(data.data(), 4, 0, count, travelKey(t, 1, 5));
  CHECK(countWrongTravel(data.data(), 4, 0, count, travelKey(t, 2, 5)) > count * 9 / 10);
  CHECK(countWrongTravel(data.data(), 4, 0, count, travelKey(t, 1, 6)) > count * 9 / 10);
  CHECK(countWrongTravel(data.data(), 4, 16, count, travelKey(t, 1, 5)) > count * 9 / 10);

  const ReducePattern p(t, *findOp("sum"), 4);
  fillTiled(data.data(), 4, 0, count, p.expected(), 5);
  CHECK(countWrongTiled(data.data(), 4, 0, count, p.expected(), 6) > count / 2);
  for (size_t shift : {1u, 16u, 4093u, 8192u, 4093u * 16}) {
    CAPTURE(shift);
    CHECK(countWrongTiled(data.data(), 4, shift, count, p.expected(), 5) > count / 2);
  }
}

TEST_CASE("an element does not depend on where filling began") {
  std::vector<uint16_t> whole(5000), parts(5000);
  const TravelKey key = travelKey(*findType("half"), 0, 1);
  fillTravel(whole.data(), 2, 0, 5000, key);
  for (size_t i = 0; i < 5000; i += 125) fillTravel(parts.data() + i, 2, i, 125, key);
  CHECK(whole == parts);
  std::vector<std::byte> tile(kTileElements * 2);
  for (size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<std::byte>(i * 7);
  fillTiled(whole.data(), 2, 0, 5000, tile, 3);
  for (size_t i = 0; i < 5000; i += 125) fillTiled(parts.data() + i, 2, i, 125, tile, 3);
  CHECK(whole == parts);
}
