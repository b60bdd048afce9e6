// One node of a class stands for all: simulated by classes, a collective takes as long as simulated rank by rank.
#include <catch2/catch.hpp>

#include "tests/support/thorough.hpp"
#include "tests/unit/sim/support.hpp"

using namespace tutti;
using namespace tutti::sim;
using namespace tutti::sim::test;

namespace {

constexpr const char* kNode =
    "machine gpu:4 nvlink:2x50 nic:4x25\nlaunch 1\nreduce 300\n"
    "near ll latency:0.7 overhead:0.1 receive:0.05 efficiency:0.5\nnear simple latency:3 overhead:0.3\n"
    "far ll latency:2.5 overhead:0.2 efficiency:0.5\nfar simple latency:9 overhead:0.4 receive:0.1\n";

}  // namespace

TEST_CASE("classes of ranks take as long as all ranks", "[thorough]") {
  const int nodes = GENERATE(2, 3, 4, 7, 8, 16);
  const size_t bytes = GENERATE(size_t{5000}, size_t{1} << 20, size_t{96} << 20);
  const bool joined = GENERATE(true, false);
  if (!tutti::test::kThorough && nodes > 4) return;
  const Network network = networkOf(clusterOf(cat(kNode, "nodes ", nodes)));
  for (const Algorithm* a : algorithms()) {
    Task task;
    task.algorithm = a;
    task.bytes = a->collective == Collective::AllReduce ? bytes : bytes / 16;
    task.joined = joined;
    task.options.sliceBytes = 512 << 10;
    if (!a->supports(shapeOf(task, placesOf(network.cluster(), task), task.bytes))) continue;
    if (joined == false && nodes > 4 && bytes > 5000) continue;  // the same again, at length
    CAPTURE(nodes, bytes, joined, a->name, collectiveName(a->collective));
    const auto exact = simulate(network, task, {.detail = Detail::Ranks, .mostLoops = 2});
    REQUIRE((exact.ok() || exact.status().message() == ""));
    // Channels that are asked for start apart where there are levels.
    const int asked = a->hasLevels() && !exact->job.staggered ? 0 : exact->channels;
    const auto classes = simulate(network, task, {.detail = Detail::Classes, .channels = asked, .mostLoops = 2});
    REQUIRE((classes.ok() || classes.status().message() == ""));
    CHECK(classes->us == Approx(exact->us).epsilon(1e-3));
    CHECK(classes->members <= exact->members);
  }
}

TEST_CASE("symmetric schedules need one node") {
  const Network network = networkOf(clusterOf(cat(kNode, "nodes 64")));
  const auto members = [&](const char* algorithm, size_t bytes) {
    const auto roles = classRoles(network, taskOf(Collective::AllReduce, algorithm, bytes));
    REQUIRE((roles.ok() || roles.status().message() == ""));
    int64_t ranks = 0;
    for (const int64_t n : roles->nRanksOf) ranks += n;
    CHECK(ranks == 256);
    return roles->programs.size();
  };
  CHECK(members("ring", 1 << 20) == 4);
  CHECK(members("circulant", 1 << 20) == 4);
  CHECK(members("hierarchical", 1 << 20) == 4);
  CHECK(members("halvingdoubling", 1 << 20) == 4);
  CHECK(members("recursivedoubling", 1000) == 4);
  CHECK(members("torus2d", 1 << 20) == 4);  // 16 x 16: rows of four nodes
  CHECK(members("torus3d", 1 << 20) == 4);
}

TEST_CASE("where channels turn the ranks, one member stands for a node") {
  const int nodes = GENERATE(2, 5, 8);
  const size_t bytes = GENERATE(size_t{5000}, size_t{32} << 20);
  const Network network = networkOf(clusterOf(cat(kNode, "nodes ", nodes)));
  for (const char* name : {"ring", "tree", "circulant", "hierarchical", "twoshot"}) {
    CAPTURE(nodes, bytes, name);
    const Task task = taskOf(Collective::AllReduce, name, bytes);
    const auto exact = simulate(network, task, {.detail = Detail::Ranks, .channels = 4});
    const auto classes = simulate(network, task, {.detail = Detail::Classes, .channels = 4});
    REQUIRE((exact.ok() && classes.ok()));
    CHECK(classes->us == Approx(exact->us).epsilon(1e-3));
    // Channels that start apart differ: a member for every rank of a node, at least.
    CHECK(classes->members <= (classes->job.staggered ? 4 * nodes : nodes));
  }
}

TEST_CASE("channels turn the ranks of a node, so that all ports are used") {
  const Network network = networkOf(clusterOf(cat(kNode, "nodes 4")));
  const Task ring = taskOf(Collective::AllReduce, "ring", 256 << 20);
  const auto roles = allRoles(network, ring);
  REQUIRE(roles.ok());
  CHECK(channelsFor(*roles) == 4);
  CHECK(usOf(network, ring, {.channels = 1}) > 3 * usOf(network, ring, {.channels = 4}));
  const auto direct = allRoles(network, taskOf(Collective::AllReduce, "hierarchical", 256 << 20));
  REQUIRE(direct.ok());
  CHECK(channelsFor(*direct) == 1);
}

TEST_CASE("classes are refused where they would be wrong") {
  const auto refused = [](const std::string& more, Task task, const Faults& faults = {}) {
    const auto roles = classRoles(networkOf(clusterOf(kNode + more), faults), task);
    return roles.ok() ? std::string() : roles.status().message();
  };
  const Task ring = taskOf(Collective::AllReduce, "ring", 1 << 20);
  CHECK_THAT(refused("nodes 4\nfabric torus dims:4", ring), Catch::Contains("holds nobody up"));
  CHECK_THAT(refused("nodes 4\nfabric fat-tree leaf:2 oversubscription:2", ring), Catch::Contains("holds nobody up"));
  CHECK(refused("nodes 4\nfabric fat-tree leaf:2", ring).empty());
  CHECK_THAT(refused("nodes 4", ring, {.ports = {{0, 0}}}), Catch::Contains("alike"));
  Task lost = ring;
  lost.lostRanks = {5};
  CHECK_THAT(refused("nodes 4", lost), Catch::Contains("alike"));
}

TEST_CASE("ranks that are lost leave a smaller collective") {
  const Network network = networkOf(clusterOf(cat(kNode, "nodes 3")));
  for (const char* name : {"ring", "tree", "circulant", "hierarchical", "halvingdoubling"}) {
    Task task = taskOf(Collective::AllReduce, name, 1 << 20);
    task.lostRanks = {0, 5};
    CAPTURE(name);
    const auto outcome = simulate(network, task, {});
    REQUIRE((outcome.ok() || outcome.status().message() == ""));
    CHECK(outcome->members == 10);
    CHECK(outcome->us > 0);
  }
}
