// The engine under its two models of wires: the same programs at the same prices take the same time where no wire is
// shared; and programs that cannot go on say so.
#include "src/sim/engine.hpp"

#include <catch2/catch.hpp>

#include "src/sim/estimate.hpp"
#include "tests/unit/sim/support.hpp"

using namespace tutti;
using namespace tutti::sim;
using namespace tutti::sim::test;

namespace {

constexpr double kSendUs = 1, kLatencyUs = 10, kReceiveUs = 2, kCombineGBps = 20, kCopyGBps = 8;

double inTurnUs(const Task& task, int nRanks) {
  Shape shape{.collective = task.algorithm->collective, .nRanks = nRanks, .inPlace = true, .bytes = task.bytes};
  shape.slotBytes = static_cast<size_t>(task.options.sliceBytes);
  shape.messageBytes = shape.slotBytes;
  auto roles = sim::allRoles(ProgramSource{
      .name = task.algorithm->name, .build = task.algorithm->build, .shape = shape, .options = task.options});
  REQUIRE(roles.ok());
  const double chunkBytes = roles->programs[0]->chunkBytes;
  Prices prices;
  prices.copied[0] = {.sendUs = kSendUs,
                      .latencyUs = kLatencyUs,
                      .receiveUs = kReceiveUs,
                      .sendUsPerByte = 1 / (kCopyGBps * 1e3),
                      .receiveUsPerByte = 1 / (kCopyGBps * 1e3)};
  prices.reduceUsPerByte = 1 / (kCombineGBps * 1e3);
  const auto estimated = estimate(bind(std::move(*roles), {}), prices, chunkBytes, 1);
  REQUIRE(estimated.ok());
  return estimated->firstUs;
}

/// Two ranks of which each waits for the other.
Roles deadlock() {
  LaneProgram lane;
  lane.steps.push_back({.nFrom = 1, .chunks = 1});
  lane.steps.push_back({.firstPeer = 1, .nTo = 1, .chunks = 1});
  lane.peers = {{.edge = 0}, {.edge = 0}};
  Roles roles;
  for (const int rank : {0, 1}) {
    const int peer = 1 - rank;
    roles.programs.push_back(
        std::make_shared<const Program>(Program{std::make_shared<const Lanes>(Lanes{lane}), {peer}, 8}));
    roles.edges.push_back({{.member = peer, .toEdge = 0, .rank = peer}});
    roles.rankOf.push_back(rank);
    roles.nRanksOf.push_back(1);
    roles.places.push_back({0, rank});
    roles.nodeOf.push_back(0);
  }
  roles.firstOf = {0, 2};
  return roles;
}

}  // namespace

TEST_CASE("both models of wires say the same where nobody shares any") {
  const int p = GENERATE(2, 3, 5, 8, 13);
  const size_t bytes = GENERATE(size_t{0}, size_t{1000}, size_t{1} << 20);
  // Copies from memory to memory pass no link; a core for each rank, since its sends and receives are its own work.
  const Network network = networkOf(clusterOf(cat(
      "machine package:1 core:16\nranks-per-node ", p, "\ncores ", p, "\nlaunch 0\nin-flight 64\nreduce ", kCombineGBps,
      "\nnear p overhead:", kSendUs, " latency:", kLatencyUs, " receive:", kReceiveUs, " copy:", kCopyGBps)));
  for (const auto& [collective, name] : {std::pair{Collective::AllReduce, "ring"},
                                         {Collective::AllReduce, "circulant"},
                                         {Collective::AllReduce, "oneshot"},
                                         {Collective::AllGather, "bruck"},
                                         {Collective::ReduceScatter, "direct"},
                                         {Collective::Broadcast, "binomial"}}) {
    CAPTURE(p, bytes, name);
    const Task task = taskOf(collective, name, bytes);
    CHECK(usOf(network, task) == Approx(inTurnUs(task, p)));
  }
}

TEST_CASE("a core that goes past a rank pays for what that looks for") {
  // All of a ring's ranks on one core: while none can go on, all look for their message in turn.
  const auto ringUs = [](double lookUs) {
    Shape shape{.collective = Collective::AllGather, .nRanks = 4, .bytes = 8};
    auto roles = sim::allRoles(ProgramSource{
        .name = "ring", .build = findAlgorithm(Collective::AllGather, "ring")->build, .shape = shape, .options = {}});
    REQUIRE(roles.ok());
    Prices prices;
    prices.cores = 1;
    prices.turnUs = prices.passUs = 1;
    prices.copied[0] = prices.here[0] = {.sendUs = kSendUs, .latencyUs = kLatencyUs, .receiveUs = kReceiveUs};
    prices.copied[0].lookUs = lookUs;
    const auto estimated = estimate(bind(std::move(*roles), {}), prices, 8, 1);
    REQUIRE(estimated.ok());
    return estimated->firstUs;
  };
  CHECK(ringUs(20) > ringUs(0) + 20);
  CHECK(ringUs(40) > ringUs(20) + 20);
}

TEST_CASE("programs that wait for each other are an error that says who waits for whom") {
  const auto estimated = estimate(bind(deadlock(), {}), {}, 8, 3);
  REQUIRE_FALSE(estimated.ok());
  CHECK_THAT(estimated.status().message(), Catch::Contains("rank 0") && Catch::Contains("for ever for rank 1"));
  const Roles roles = deadlock();
  FairWorkload load;
  for (size_t m = 0; m < 2; ++m) {
    load.lanes.push_back({{roles.programs[m]->lanes, 0, 0}});
    load.edges.emplace_back().push_back({{.to = static_cast<int32_t>(1 - m)}});
  }
  load.rankOf = roles.rankOf;
  load.near = load.far = {{.name = "p"}};
  const auto run = runFair(load, 2, 2, 8, true);
  REQUIRE_FALSE(run.ok());
  CHECK_THAT(run.status().message(), Catch::Contains("rank 0") && Catch::Contains("for ever for rank 1"));
}
