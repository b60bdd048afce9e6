// A walk over an algorithm's own schedules costs about what its formula says, which was held to measurements.
#include "src/plan/walk_cost.hpp"

#include <catch2/catch.hpp>

#include "algorithms/algorithm.hpp"
#include "src/base/text.hpp"
#include "src/schedule/passes.hpp"

namespace tutti {
namespace {

std::vector<Schedule> schedulesOf(const Algorithm& algorithm, Shape shape) {
  std::vector<Schedule> all;
  for (shape.rank = 0; shape.rank < shape.nRanks; ++shape.rank) all.push_back(algorithm.build(shape));
  return all;
}

CostModel figures() {
  CostModel cost;
  cost.intra = {.latencyUs = 1, .bandwidthGBps = 8};
  cost.inter = {.latencyUs = 20, .bandwidthGBps = 1};
  cost.link = cost.exchange = cost.oneWay = cost.intra;
  return cost;
}

}  // namespace

TEST_CASE("the walk of an algorithm agrees with its formula") {
  const CostModel cost = figures();
  struct Row {
    Collective collective;
    const char* name;
  };
  for (const Row& row : {Row{Collective::AllReduce, "ring"}, Row{Collective::AllReduce, "twoshot"},
                         Row{Collective::AllReduce, "recursivedoubling"}, Row{Collective::AllGather, "ring"},
                         Row{Collective::AllGather, "direct"}, Row{Collective::ReduceScatter, "direct"},
                         Row{Collective::AllToAll, "direct"}, Row{Collective::AllToAll, "pairwise"}}) {
    const Algorithm& algorithm = *findAlgorithm(row.collective, row.name);
    for (const int nRanks : {2, 4, 8}) {
      for (const size_t bytes : {size_t{8}, size_t{16} << 10, size_t{1} << 20}) {
        const Shape shape{.collective = row.collective, .nRanks = nRanks, .bytes = bytes, .slotBytes = size_t{1} << 30};
        const double formula = algorithm.costUs(shape, cost),
                     walked = walkUs(schedulesOf(algorithm, shape), shape, cost);
        CAPTURE(row.name, nRanks, bytes, formula, walked);
        CHECK(walked > 0.7 * formula);
        CHECK(walked < 1.4 * formula);
      }
    }
  }
}

TEST_CASE("a pipeline's slices overlap, ranks that share cores do not, and hosts are farther than neighbours") {
  CostModel cost = figures();
  const Algorithm& chain = *findAlgorithm(Collective::Broadcast, "chain");
  Shape shape{.collective = Collective::Broadcast, .nRanks = 8, .bytes = size_t{8} << 20};
  const std::vector<Schedule> schedules = schedulesOf(chain, shape);
  const double piped = walkUs(schedules, shape, cost);
  shape.slotBytes = size_t{1} << 30;
  CHECK(piped < 0.5 * walkUs(schedules, shape, cost));
  shape.slotBytes = 128 * 1024;
  shape.nodeOf = {0, 0, 0, 0, 1, 1, 1, 1};
  CHECK(walkUs(schedules, shape, cost) > 2 * piped);
  shape.nodeOf.clear();
  cost.ranksPerCore = 8;
  CHECK(walkUs(schedules, shape, cost) > 3 * piped);
}

TEST_CASE("channels divide the bytes, and every message of theirs has its latency") {
  const CostModel cost = figures();
  const Algorithm& ring = *findAlgorithm(Collective::AllReduce, "ring");
  const Shape shape{.collective = Collective::AllReduce, .nRanks = 4, .bytes = 64};
  std::vector<Schedule> one = schedulesOf(ring, shape), four;
  for (const Schedule& s : one) four.push_back(replicate(s, 4));
  CHECK(walkUs(four, shape, cost) > 0.99 * walkUs(one, shape, cost));
  CHECK(walkUs(four, shape, cost) < 4 * walkUs(one, shape, cost));
}

}  // namespace tutti
