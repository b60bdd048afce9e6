// Ways through clusters, and what sharing their links costs.
#include <catch2/catch.hpp>

#include "tests/unit/sim/support.hpp"

using namespace tutti;
using namespace tutti::sim;
using namespace tutti::sim::test;

namespace {

constexpr const char* kMachine =
    "machine gpu:4 nvlink:1x100 nic:4x25 pcie:32x16\nlaunch 0\nreduce 1000000\n"
    "near p latency:1\nfar p latency:1\n";

Network cluster(const std::string& more, const Faults& faults = {}) {
  return networkOf(clusterOf(kMachine + more), faults);
}

std::vector<std::string> names(const Network& n, Place from, Place to) {
  const auto route = n.route(from, to);
  TUTTI_ASSERT(route.ok());
  std::vector<std::string> list;
  for (const int link : route->links) {
    if (n.inFabric(link)) list.push_back(n.name(link));
  }
  return list;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("inside a node the way leads over its links, between nodes through ports") {
  const Network n = cluster("nodes 2");
  const auto near = n.route({0, 1}, {0, 2});
  REQUIRE(near.ok());
  CHECK_FALSE(near->far);
  CHECK(near->mostGBps == 100);
  REQUIRE(near->links.size() == 2);
  CHECK_THAT(n.name(near->links[0]), Catch::StartsWith("node 0 GPU 1 ") && Catch::EndsWith("-> NVSwitch"));
  CHECK_THAT(n.name(near->links[1]), Catch::StartsWith("node 0 NVSwitch -> GPU 2 "));
  const auto far = n.route({0, 1}, {1, 2});
  REQUIRE(far.ok());
  CHECK(far->far);
  CHECK(far->mostGBps == 25);
  CHECK(n.name(far->links.front()).starts_with("node 0 GPU 1"));
  CHECK(n.name(far->links.back()).starts_with("node 1 "));
}

TEST_CASE("fat-tree: leaves are left only for other leaves") {
  const Network n = cluster("nodes 6\nfabric fat-tree leaf:2 hop:0.5");
  CHECK(names(n, {0, 0}, {1, 3}).empty());
  CHECK(names(n, {0, 0}, {5, 3}) == Names{"leaf 0 up", "leaf 2 down"});
  CHECK(n.switchesUs({0, 0}, {1, 0}) == 0.5);
  CHECK(n.switchesUs({0, 0}, {2, 0}) == 1.5);
}

TEST_CASE("rails: other rails are reached inside the node first") {
  const Network n = cluster("nodes 4\nfabric rail leaf:2");
  CHECK(names(n, {0, 1}, {3, 1}) == Names{"leaf 0 rail 1 up", "leaf 1 rail 1 down"});
  const auto crossing = n.route({0, 1}, {1, 3});
  REQUIRE(crossing.ok());
  CHECK_THAT(n.name(crossing->links[0]), Catch::StartsWith("node 0 GPU 1 "));
  CHECK_THAT(n.name(crossing->links[1]), Catch::StartsWith("node 0 NVSwitch -> GPU 3 "));
}

TEST_CASE("rails: a rank whose port is lost is reached by another rail, and through its node") {
  const Network n = cluster("nodes 2\nfabric rail leaf:2", {.ports = {{0, 1}}});
  for (const auto& [from, to] : {std::pair<Place, Place>{{0, 1}, {1, 1}}, {{1, 1}, {0, 1}}, {{0, 1}, {1, 0}}}) {
    const auto route = n.route(from, to);
    REQUIRE((route.ok() || route.status().message() == ""));
    CHECK(route->far);
    CHECK(route->mostGBps == 25);
  }
  CHECK(usOf(n, taskOf(Collective::AllReduce, "hierarchical", 1 << 20)) > 0);
}

TEST_CASE("torus: the shorter way round, one dimension after the other") {
  const Network n = cluster("nodes 12\nfabric torus dims:4x3 gbps:10");
  CHECK(names(n, {0, 0}, {1, 0}) == Names{"node 0 dimension 0 +"});
  CHECK(names(n, {0, 0}, {3, 0}) == Names{"node 0 dimension 0 -"});
  CHECK(names(n, {0, 0}, {2, 0}) == Names{"node 0 dimension 0 +", "node 1 dimension 0 +"});
  CHECK(names(n, {5, 0}, {8, 0}) == Names{"node 5 dimension 0 -", "node 4 dimension 1 +"});
  CHECK(names(n, {0, 0}, {8, 0}) == Names{"node 0 dimension 1 -"});
}

TEST_CASE("dragonfly: one hop between groups") {
  const Network n = cluster("nodes 6\nfabric dragonfly group:2 gbps:20 global:30");
  CHECK(names(n, {0, 0}, {1, 0}) == Names{"node 0 into its group", "node 1 from its group"});
  CHECK(names(n, {0, 0}, {5, 0}) == Names{"node 0 into its group", "group 0 to group 2", "node 5 from its group"});
}

TEST_CASE("an oversubscribed spine is shared by all who cross it") {
  // Each node of the one leaf sends to one of the other: 8 ports of 25 GB/s, a quarter of that to the spine.
  const auto us = [](const char* over) {
    const Network n = cluster(cat("nodes 4\nin-flight 16\nfabric fat-tree leaf:2 hop:0 oversubscription:", over));
    return usOf(n, taskOf(Collective::AllToAll, "direct", 1'000'000));
  };
  CHECK(us("4") > us("1") * 1.5);
  CHECK(us("2") > us("1"));
  CHECK(us("0.5") == Approx(us("1")));
}

TEST_CASE("ports that are lost hand their traffic to the next best one") {
  const Network n = cluster("nodes 2", {.ports = {{0, 1}}});
  CHECK(n.portOf({0, 1}) >= 0);
  CHECK(n.portOf({0, 1}) != 1);
  CHECK(n.portOf({1, 1}) == 1);
  const Task task = taskOf(Collective::AllReduce, "hierarchical", 64 << 20);
  CHECK(usOf(n, task) > usOf(cluster("nodes 2"), task) * 1.2);
  CHECK_FALSE(Network::make(clusterOf(std::string(kMachine) + "nodes 2"), {.ports = {{2, 0}}}).ok());
  CHECK_FALSE(
      Network::make(clusterOf(std::string(kMachine) + "nodes 2"), {.ports = {{0, 0}, {0, 1}, {0, 2}, {0, 3}}}).ok());
}

TEST_CASE("a link that loses a cable carries less, one without another nothing") {
  const Cluster c = clusterOf("machine gpu:4 nvlink:4x25\nlaunch 0");
  const Network whole = networkOf(c);
  const int link = whole.route({0, 0}, {0, 1})->links[0];
  CHECK(whole.cables(link) == 4);
  const Network less = networkOf(c, {.links = {link}});
  CHECK(less.capacity(link) == 75);
  CHECK(less.route({0, 1}, {0, 0})->mostGBps == 75);  // both directions
  const Network none = cluster("nodes 4\nfabric torus dims:4 gbps:10",
                               {.links = {cluster("nodes 4\nfabric torus dims:4 gbps:10").linksPerNode() * 4}});
  CHECK_FALSE(none.route({0, 0}, {1, 0}).ok());
  CHECK(none.route({1, 0}, {0, 0}).ok());
}

TEST_CASE("nodes that cannot reach each other are refused") {
  const auto n = Network::make(clusterOf("nodes 2; machine gpu:4 nvlink:1x10"));
  REQUIRE_FALSE(n.ok());
  CHECK_THAT(n.status().message(), Catch::Contains("no port"));
}

TEST_CASE("what links carried is what the schedule sent") {
  const Network n = networkOf(clusterOf(plain(4, 1, 100)));
  const auto outcome = simulate(n, taskOf(Collective::AllGather, "ring", 1000), {});
  REQUIRE(outcome.ok());
  double sum = 0;
  for (const double bytes : outcome->run.linkBytes) sum += bytes;
  CHECK(sum == Approx(2 * 4 * 3 * 1000));  // two links a message, three messages a rank
  CHECK(outcome->run.messages == 12);
}

TEST_CASE("adapters with a latency of their own hold every message up between nodes, and none inside") {
  const auto usOf = [](const char* adapters, int nodes) {
    const Network network = networkOf(clusterOf(cat("nodes ", nodes, "; machine gpu:2 nvlink:1x20 nic:2x10", adapters,
                                                    "; far p latency:5; near p latency:1; launch 0")));
    return sim::test::usOf(network, taskOf(Collective::AllReduce, "ring", 64));
  };
  CHECK(usOf(" nic-latency:15", 1) == usOf("", 1));
  // Two of a ring's six steps cross at a time, one behind the other.
  CHECK(usOf(" nic-latency:15", 2) > usOf("", 2) + 15);
}
