#include "src/collective/fingerprint.hpp"

#include <catch2/catch.hpp>

using namespace tutti;

TEST_CASE("a fingerprint keeps every part of its call") {
  const CallParts parts{.sequence = 0xabcdef, .kind = 3, .dtype = 14, .op = 11, .root = 0xfffffe, .count = 1ull << 40};
  const CallParts back = partsOf(makeFingerprint(parts));
  CHECK(back.sequence == parts.sequence);
  CHECK(back.kind == parts.kind);
  CHECK(back.dtype == parts.dtype);
  CHECK(back.op == parts.op);
  CHECK(back.root == parts.root);
  CHECK(back.count == parts.count);
  CHECK(describeCall(makeFingerprint({.sequence = 17, .kind = 0, .dtype = 7, .op = 0, .root = 0, .count = 5})) ==
        "AllReduce number 17 (count 5, float, sum)");
  const uint32_t allGather = static_cast<uint32_t>(Collective::AllGather);
  CHECK(describeCall(makeFingerprint({.sequence = 3, .kind = allGather + kKindCounts, .dtype = 7, .count = 0x1f3a})) ==
        "AllGatherv number 3 (counts with checksum 1f3a, float)");
  const uint32_t allToAll = static_cast<uint32_t>(Collective::AllToAll);
  CHECK(describeCall(makeFingerprint({.sequence = 4, .kind = allToAll + kKindCounts, .dtype = 7})) ==
        "AllToAllv number 4 (float)");
  CHECK(describeCall(makeFingerprint({.sequence = 5, .kind = allGather, .dtype = 5, .root = kByLibrary, .count = 6})) ==
        "AllGather number 5 (count 6, uint64, the library's own)");
}
