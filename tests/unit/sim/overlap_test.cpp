// Hierarchical algorithms on channels that start apart: the slowest level alone decides how long they take.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/thorough.hpp"
#include "tests/unit/sim/support.hpp"

using namespace tutti;
using namespace tutti::sim;
using namespace tutti::sim::test;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

Network gpusOf(int nodes) { return networkOf(clusterOf(cat("machine gpu:8 nvlink:18x25 nic:8x50\nnodes ", nodes))); }

Task cutTask(Collective collective, size_t bytes) {
  Task task = taskOf(collective, "hierarchical", bytes);
  task.options.sliceBytes = 2 << 20;
  return task;
}

double busiest(const Outcome& outcome) {
  double most = 0;
  for (size_t link = 0; link < outcome.run.linkBytes.size(); ++link) most = std::max(most, outcome.load(link));
  return most;
}

}  // namespace

TEST_CASE("large hierarchical collectives take at most a tenth longer than their slowest level", "[thorough]") {
  struct Row {
    Collective collective;
    int nodes;
    size_t bytes;
  };
  const auto row = GENERATE(values<Row>({{Collective::AllReduce, 4, 1024 * kMiB},
                                         {Collective::AllReduce, 64, 1024 * kMiB},
                                         {Collective::AllReduce, 256, 2048 * kMiB},
                                         {Collective::AllGather, 4, 32 * kMiB},
                                         {Collective::AllGather, 64, 2 * kMiB},
                                         {Collective::ReduceScatter, 4, 32 * kMiB},
                                         {Collective::ReduceScatter, 64, 2 * kMiB},
                                         {Collective::Broadcast, 4, 1024 * kMiB},
                                         {Collective::AllToAll, 4, 64 * kMiB},
                                         {Collective::AllToAll, 64, 4 * kMiB}}));
  if (!tutti::test::kThorough && row.nodes > 4) return;
  CAPTURE(collectiveKey(row.collective), row.nodes, row.bytes);
  const auto outcome = simulate(gpusOf(row.nodes), cutTask(row.collective, row.bytes), {});
  REQUIRE((outcome.ok() || outcome.status().message() == ""));
  CHECK(outcome->job.staggered);
  CHECK(outcome->channels > 1);
  CHECK(busiest(*outcome) >= 0.9);
  CHECK(busiest(*outcome) <= 1 + 1e-9);
}

TEST_CASE("levels overlap on nodes with different numbers of ranks too", "[thorough]") {
  for (const Collective collective : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter}) {
    if (!tutti::test::kThorough && collective != Collective::AllReduce) continue;
    const bool vector = isOneVector(collective);
    Task task = cutTask(collective, vector ? 1024 * kMiB : 32 * kMiB);
    task.lostRanks = {1, 8, 9, 30};
    CAPTURE(collectiveKey(collective));
    const Network network = gpusOf(4);
    const auto apart = simulate(network, task, {}), inStep = simulate(network, task, {.channels = 1});
    REQUIRE((apart.ok() && inStep.ok()));
    CHECK(apart->job.staggered);
    CHECK_FALSE(inStep->job.staggered);
    CHECK(apart->us < 0.8 * inStep->us);
  }
}

TEST_CASE("chunks that are too small for slices go on one channel") {
  const auto outcome = simulate(gpusOf(16), cutTask(Collective::AllReduce, kMiB), {});
  REQUIRE(outcome.ok());
  CHECK_FALSE(outcome->job.staggered);
  CHECK(outcome->channels == 1);
}
