// What the passes make of schedules written by hand.
#include "src/schedule/passes.hpp"
#include "src/schedule/stagger.hpp"

#include <catch2/catch.hpp>

#include "src/schedule/builder.hpp"
#include "src/schedule/verifier.hpp"
#include "tests/unit/schedule/ops_of.hpp"

using namespace tutti;

namespace {

template <class Write>
std::string fused(const Shape& shape, Write write) {
  ScheduleBuilder b(shape, 2);
  write(b);
  return opsOf(fuse(b.finish()));
}

const Shape kReduce{.collective = Collective::Reduce, .rank = 1, .nRanks = 4};
const Shape kAllReduce{.collective = Collective::AllReduce, .rank = 1, .nRanks = 4};

}  // namespace

TEST_CASE("what is received and sent on becomes one op, which stores only what somebody reads") {
  CHECK(fused(kAllReduce, [](auto& b) {
          b.recvReduce(2, in(0), out(0));
          b.send(0, out(0));
        }) == "recvReduceSend in[0] + rank 2 => out[0] -> 0; ");
  CHECK(fused(kReduce, [](auto& b) {
          const Chunk x = b.newScratch();
          b.recvReduce(2, in(0), x);
          b.send(0, x);
        }) == "recvReduceSend in[0] + rank 2 -> 0; ");
  CHECK(fused(kReduce,
              [](auto& b) {
                const Chunk x = b.newScratch();
                b.recv(2, x);
                b.send(0, x);
                b.send(3, x);
                b.recv(2, x);
                b.reduce(x, in(0), x);
                b.send(0, x);
              }) ==
        "recvCopySend rank 2 -> 0,3; recv rank 2 => scratch[0]; reduce scratch[0] + in[0] => scratch[0]; "
        "send scratch[0] -> 0; ");
  // Overwritten later, but read before.
  CHECK(fused(kAllReduce, [](auto& b) {
          b.recv(2, out(0));
          b.send(0, out(0));
          b.copy(out(0), out(1));
          b.recv(2, out(0));
        }) == "recvCopySend rank 2 => out[0] -> 0; copy out[0] => out[1]; recv rank 2 => out[0]; ");
}

TEST_CASE("for direct sends, a value that is stored in Output is sent from there by an op of its own") {
  const auto forDirect = [](const Shape& shape, auto write) {
    ScheduleBuilder b(shape, 2);
    write(b);
    return opsOf(fuseForDirect(b.finish()));
  };
  CHECK(forDirect(kAllReduce, [](auto& b) {
          b.recvReduce(2, in(0), out(0));
          b.send(0, out(0));
          b.send(3, out(0));
        }) == "recvReduce in[0] + rank 2 => out[0]; publish out[0] -> 0,3; ");
  CHECK(forDirect(kReduce, [](auto& b) {
          const Chunk x = b.newScratch();
          b.recvReduce(2, in(0), x);
          b.send(0, x);
        }) == "recvReduceSend in[0] + rank 2 -> 0; ");
}

TEST_CASE("reductions in a row into one chunk become one op with several messages") {
  CHECK(fused(kAllReduce, [](auto& b) {
          b.recvReduce(2, in(0), out(0));
          b.recvReduce(3, out(0));
          b.recvReduce(0, out(0));
          b.send(0, out(0));
        }) == "recvReduceSend in[0] + rank 2 + rank 3 + rank 0 => out[0] -> 0; ");
  // One message of each rank at a time.
  CHECK(fused(kAllReduce, [](auto& b) {
          b.recvReduce(2, in(0), out(0));
          b.recvReduce(2, out(0));
        }) == "recvReduce in[0] + rank 2 => out[0]; recvReduce out[0] + rank 2 => out[0]; ");
  // The value has been sent in between.
  CHECK(fused(kAllReduce, [](auto& b) {
          b.recvReduce(2, in(0), out(0));
          b.send(3, out(0));
          b.recvReduce(3, out(0));
        }) == "recvReduceSend in[0] + rank 2 => out[0] -> 3; recvReduce out[0] + rank 3 => out[0]; ");
}

TEST_CASE("sends in a row of one chunk become a publish") {
  CHECK(fused(kAllReduce, [](auto& b) {
          b.send(0, in(0));
          b.send(2, in(0));
          b.send(3, in(1));
          b.send(3, in(1));
        }) == "publish in[0] -> 0,2; send in[1] -> 3; send in[1] -> 3; ");
}

TEST_CASE("chunks that share memory in place are one chunk to fuse") {
  Shape shape{.collective = Collective::AllGather, .rank = 1, .nRanks = 4, .inPlace = true};
  CHECK(fused(shape, [](auto& b) {
          b.send(0, in(0));
          b.send(2, out(1));
        }) == "publish in[0] -> 0,2; ");
}

TEST_CASE("fused phases begin at the op that follows") {
  ScheduleBuilder b(kAllReduce);
  b.phase("reduce").recvReduce(2, in(0), out(0));
  b.phase("broadcast").send(0, out(0));
  b.send(3, in(0));
  CHECK(fuse(b.finish()).lanes[0].phases == std::vector<Phase>{{"reduce", 0}, {"broadcast", 1}});
}

TEST_CASE("a fused ring needs two slots, and says so") {
  std::vector<Schedule> ring;
  const int n = 4;
  for (int r = 0; r < n; ++r) {
    ScheduleBuilder b({.collective = Collective::AllGather, .rank = r, .nRanks = n, .inPlace = true});
    for (int step = 0; step < n - 1; ++step) {
      b.send((r + 1) % n, out((r - step + n) % n));
      b.recv((r + n - 1) % n, out((r - step - 1 + n) % n));
    }
    ring.push_back(fuse(b.finish()));
  }
  CHECK(verify(ring).empty());
  CHECK(verify(ring, {.slots = 1}).find("waits for room") != std::string::npos);
}

TEST_CASE("replicas have lanes and scratch of their own") {
  ScheduleBuilder b(kReduce, 1, 2);
  const Chunk x = b.newScratch(), y = b.newScratch();
  b.lane(0).recvReduce(2, in(0), x);
  b.lane(1).recvReduce(3, in(0), y);
  const Schedule s = replicate(b.finish(), 3);
  REQUIRE(s.lanes.size() == 6);
  CHECK(s.nChannels == 3);
  CHECK(s.nScratch == 6);
  CHECK(opsOf(s, 0) == "recvReduce in[0] + rank 2 => scratch[0]; ");
  CHECK(opsOf(s, 4) == "recvReduce in[0] + rank 2 => scratch[4]; ");
  CHECK(opsOf(s, 5) == "recvReduce in[0] + rank 3 => scratch[5]; ");
  CHECK(s.channelOf(3) == 1);
  CHECK(replicate(s, 2).nChannels == 6);
}

TEST_CASE("channels that start apart have first slices that grow by an equal part") {
  ScheduleBuilder b(kReduce, 1, 2);
  b.lane(0).send(0, in(0));
  b.lane(1).send(2, in(0));
  Schedule s = replicate(b.finish(), 4);
  const auto starts = [&](size_t sliceBytes, size_t elementBytes) {
    std::vector<size_t> all;
    for (int lane = 0; lane < 8; ++lane) all.push_back(s.headStart(lane, sliceBytes, elementBytes));
    return all;
  };
  CHECK(starts(4096, 4) == std::vector<size_t>(8, 0));
  s.staggered = true;
  CHECK(starts(4096, 4) == std::vector<size_t>{3072, 3072, 2048, 2048, 1024, 1024, 0, 0});
  // Slices begin on cache lines and with whole elements.
  CHECK(starts(1000, 4) == std::vector<size_t>{640, 640, 384, 384, 128, 128, 0, 0});
  CHECK(starts(9600, 96) == std::vector<size_t>{6912, 6912, 4608, 4608, 2304, 2304, 0, 0});
  CHECK(starts(64, 8) == std::vector<size_t>(8, 0));
}

TEST_CASE("channels start apart where each has two slices or more") {
  constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;
  CHECK(channelsApart(0) == 1);
  CHECK(channelsApart(511 * kKiB) == 1);
  CHECK(channelsApart(512 * kKiB) == 2);
  CHECK(channelsApart(64 * kMiB) == kChannelsApart);
  CHECK(channelsApart(64 * kMiB, 3) == 3);
  for (const size_t slotBytes : {16 * kKiB, 128 * kKiB, 2 * kMiB}) {
    for (const size_t chunk : {size_t{0}, 100 * kKiB, 512 * kKiB, 3 * kMiB + 5, 64 * kMiB}) {
      for (const int channels : {1, 2, 5, 8}) {
        CAPTURE(slotBytes, chunk, channels);
        const size_t slice = staggeredBytes(chunk, channels, slotBytes);
        CHECK(slice <= slotBytes);
        CHECK(slice % 4096 == 0);
        if (!startsApart(chunk, channels, slotBytes)) continue;
        CHECK(channels > 1);
        CHECK(chunk / static_cast<size_t>(channels) > slice);
      }
    }
  }
  CHECK(startsApart(512 * kKiB, 2, 2 * kMiB));
  // Larger chunks have more slices, up to as many as there are worth having, and small ones where messages cost less.
  CHECK(staggeredBytes(96 * kMiB, 8, 2 * kMiB) == kMiB);
  CHECK(staggeredBytes(384 * kMiB, 8, 2 * kMiB) == 2 * kMiB);
  CHECK(channelsApart(512 * kKiB, 8, 32 * kKiB) == 8);
  CHECK(staggeredBytes(512 * kKiB, 8, 2 * kMiB, 16 * kKiB) == 16 * kKiB);
  CHECK(startsApart(512 * kKiB, 8, 2 * kMiB, 32 * kKiB));
  CHECK_FALSE(startsApart(512 * kKiB, 1, 2 * kMiB));
  CHECK_FALSE(startsApart(200 * kKiB, 2, 2 * kMiB));
}

TEST_CASE("sends from the user's memory become direct, unless both sides would wait") {
  std::vector<Schedule> outOfPlace, exchange;
  for (const bool inPlace : {false, true}) {
    for (int r = 0; r < 2; ++r) {
      ScheduleBuilder b({.rank = r, .nRanks = 2, .inPlace = inPlace});
      b.workInOutput();
      b.send(1 - r, out(0));
      b.recvReduce(1 - r, out(0));
      (inPlace ? exchange : outOfPlace).push_back(b.finish());
    }
  }
  for (const Schedule& s : markDirect(outOfPlace)) CHECK(s.lanes[0].ops[0].direct);
  const std::vector<Schedule> marked = markDirect(exchange);
  CHECK(marked[0].lanes[0].ops[0].direct != marked[1].lanes[0].ops[0].direct);
  CHECK(verify(marked).empty());
}

TEST_CASE("scratch is not sent directly") {
  std::vector<Schedule> all;
  for (int r = 0; r < 3; ++r) {  // 2 -> 1 -> 0
    ScheduleBuilder b({.collective = Collective::Reduce, .rank = r, .nRanks = 3});
    b.workInOutput();
    if (r < 2) b.recvReduce(r + 1, out(0));
    if (r > 0) b.send(r - 1, out(0));
    all.push_back(b.finish());
  }
  const std::vector<Schedule> marked = markDirect(all);
  CHECK(marked[2].lanes[0].ops[0].direct);
  CHECK(opsOf(marked[1]) == "recvReduce in[0] + rank 2 => scratch[0]; send scratch[0] -> 0; ");
}

TEST_CASE("a chain made reproducible carries the parts of the tree") {
  // 3 -> 2 -> 1 -> 0 combines ((3 2) 1) 0; the tree is (0 1) (2 3).
  std::vector<Schedule> chain;
  for (int r = 0; r < 4; ++r) {
    ScheduleBuilder b({.collective = Collective::Reduce, .rank = r, .nRanks = 4});
    b.workInOutput();
    b.phase("up");
    if (r < 3) b.recvReduce(r + 1, out(0));
    if (r > 0) b.send(r - 1, out(0));
    chain.push_back(b.finish());
  }
  const std::vector<Schedule> made = makeReproducible(chain);
  CHECK(verify(made, {.slots = 1, .tree = true}).empty());
  CHECK(opsOf(made[3]) == "send in[0] -> 2; ");
  CHECK(opsOf(made[2]) == "recvReduce in[0] + rank 3 => scratch[0]; send scratch[0] -> 1; ");
  CHECK(opsOf(made[1]) == "recv rank 2 => scratch[0]; send in[0] -> 0; send scratch[0] -> 0; ");
  CHECK(opsOf(made[0]) == "recvReduce in[0] + rank 1 => out[0]; recvReduce out[0] + rank 1 => out[0]; ");
  CHECK(made[1].lanes[0].phases == std::vector<Phase>{{"up", 0}});
  CHECK(made[0].reproducible);
}

TEST_CASE("collectives that combine nothing are reproducible as they are") {
  ScheduleBuilder b({.collective = Collective::Broadcast, .rank = 0, .nRanks = 1});
  b.copy(in(0), out(0));
  const std::vector<Schedule> all = {b.finish()};
  CHECK(makeReproducible(all) == all);
}
