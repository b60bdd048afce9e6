#include "src/comm/slices.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace tutti;

namespace {

Call callOf(Collective collective) {
  Call call;
  call.kind = CallKind::Collective;
  call.collective = collective;
  return call;
}

}  // namespace

TEST_CASE("over sockets of one host messages are the larger, the less a slice is waited for") {
  CHECK(sliceUse(callOf(Collective::AllGather)) == SliceUse::Copied);
  CHECK(sliceUse(callOf(Collective::Broadcast)) == SliceUse::Copied);
  CHECK(sliceUse(callOf(Collective::AllReduce)) == SliceUse::SummedInBlocks);
  CHECK(sliceUse(callOf(Collective::ReduceScatter)) == SliceUse::SummedInBlocks);
  CHECK(sliceUse(callOf(Collective::Reduce)) == SliceUse::SummedInChain);
  for (const bool shareCores : {false, true}) {
    const size_t others = shareCores ? 128 << 10 : 256 << 10;
    const SocketSlices slices = socketSlices(others, shareCores);
    CHECK(slices.of(SliceUse::SummedInChain) == others);
    CHECK(slices.of(SliceUse::SummedInBlocks) > others);
    CHECK(slices.of(SliceUse::Copied) >= slices.of(SliceUse::SummedInBlocks));
  }
  CHECK(socketSlices(256 << 10, false).inBlocks > socketSlices(128 << 10, true).inBlocks);
}

TEST_CASE("messages are never smaller than those of other links, and TUTTI_SLOT_BYTES holds for all") {
  const SocketSlices large = socketSlices(4 << 20, false);
  for (const size_t bytes : {large.copied, large.inBlocks, large.inChain}) CHECK(bytes == size_t{4 << 20});
  REQUIRE(setenv("TUTTI_SLOT_BYTES", "65536", 1) == 0);
  const SocketSlices given = socketSlices(65536, true);
  REQUIRE(unsetenv("TUTTI_SLOT_BYTES") == 0);
  for (const size_t bytes : {given.copied, given.inBlocks, given.inChain}) CHECK(bytes == 65536);
}
