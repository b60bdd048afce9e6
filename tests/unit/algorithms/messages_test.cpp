// The chunks of a step travel in messages of several: log-round algorithms take about log n latencies.
#include <catch2/catch.hpp>

#include "algorithms/patterns.hpp"
#include "tests/unit/algorithms/count.hpp"
#include "tests/unit/algorithms/shapes.hpp"

namespace tutti {
namespace {

/// Messages that a rank sends.
size_t messagesOf(const Schedule& schedule) {
  size_t messages = 0;
  for (const Lane& lane : schedule.lanes) {
    for (const Op& op : lane.ops) messages += op.joined ? 0 : op.to.size();
  }
  return messages;
}

TEST_CASE("with room for all chunks of a step in a message, every rank sends one to each partner of a step") {
  struct Row {
    Collective collective;
    const char* name;
    int perRound;
  };
  for (const Row& row : {Row{Collective::AllReduce, "circulant", 2}, Row{Collective::AllGather, "bruck", 1},
                         Row{Collective::AllGather, "circulant", 1}, Row{Collective::AllGather, "pat", 1},
                         Row{Collective::ReduceScatter, "circulant", 1}, Row{Collective::ReduceScatter, "bruck", 1},
                         Row{Collective::ReduceScatter, "pat", 1}, Row{Collective::AllToAll, "bruck2", 1}}) {
    const Algorithm* a = findAlgorithm(row.collective, row.name);
    for (const int n : {2, 3, 5, 8, 13, 16, 33}) {
      for (const bool inPlace : {false, true}) {
        Shape shape{.collective = row.collective, .nRanks = n, .inPlace = inPlace, .bytes = 64};
        shape.messageBytes = 128 * 1024;
        INFO(row.name << " on " << n << " ranks");
        for (const Schedule& s : buildAll(*a, shape)) {
          CHECK(messagesOf(s) == static_cast<size_t>(row.perRound * ceilLog2(n)));
        }
      }
    }
  }
}

TEST_CASE("algorithms that say so have messages of several chunks, and others have none") {
  for (const Algorithm* a : algorithms()) {
    size_t joined = 0;
    for (const int n : {6, 8, 20}) {
      Shape shape{.collective = a->collective, .nRanks = n, .bytes = 4096, .nodeOf = {}, .messageBytes = 1 << 30};
      if (a->chooseParts != nullptr) shape.parts = {LevelPart::Circulant, LevelPart::Direct};
      for (int r = 0; r < n; ++r) shape.nodeOf.push_back(r / 2);
      if (!a->supports(shape)) continue;
      for (const Schedule& s : buildAll(*a, shape)) {
        for (const Lane& lane : s.lanes) {
          for (const Op& op : lane.ops) joined += op.joined ? 1 : 0;
        }
      }
    }
    INFO(collectiveKey(a->collective) << " " << a->name);
    CHECK(a->joins == (joined > 0));
  }
}

TEST_CASE("messages have as many chunks as fit, rounded to cache lines as the executor does") {
  Shape shape{.collective = Collective::AllReduce, .nRanks = 8, .bytes = 64 << 10};
  CHECK(chunksPerMessage(shape, 8) == 1);
  shape.messageBytes = 128 << 10;
  CHECK(chunksPerMessage(shape, 8) == 16);
  shape.bytes = 512 << 10;
  CHECK(chunksPerMessage(shape, 8) == 2);
  shape.bytes = (512 << 10) + 4;  // chunks of 64 KiB and a line
  CHECK(chunksPerMessage(shape, 8) == 1);
  shape.bytes = 8 << 20;
  CHECK(chunksPerMessage(shape, 8) == 1);
}

}  // namespace
}  // namespace tutti
