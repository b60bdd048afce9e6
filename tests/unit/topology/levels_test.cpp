#include "src/topology/levels.hpp"

#include <catch2/catch.hpp>

#include "src/topology/merge.hpp"
#include "src/topology/one_line.hpp"
#include "tests/unit/topology/machines.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

std::vector<int> group(const LevelGroups& groups, Level level) { return groups[static_cast<size_t>(level)]; }

RankPlace onCpus(uint64_t host, int64_t process, const char* cpus) {
  return {host, process, CpuSet::parseList(cpus).value(), ""};
}

}  // namespace

TEST_CASE("ranks on host memory are grouped at every level") {
  const auto graph = parseOneLine("node:2 package:2 numa:2 l3:2 core:2");  // 16 cores a host
  REQUIRE(graph.ok());
  const std::vector<RankPlace> ranks = {onCpus(1, 10, "0"), onCpus(1, 10, "1"), onCpus(1, 11, "2"),
                                        onCpus(1, 12, "4"), onCpus(1, 13, "8"), onCpus(1, 14, "0-3"),
                                        onCpus(1, 15, ""),  onCpus(2, 10, "0"), onCpus(2, 16, "15")};
  const auto groups = levelGroups(*graph, ranks);
  REQUIRE(groups.status().message() == "");
  CHECK(group(*groups, Level::Process) == std::vector<int>{0, 0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(group(*groups, Level::L3) == std::vector<int>{0, 0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(group(*groups, Level::Numa) == std::vector<int>{0, 0, 0, 1, 2, 0, 3, 4, 5});
  CHECK(group(*groups, Level::Socket) == std::vector<int>{0, 0, 0, 0, 1, 0, 2, 3, 4});
  CHECK(group(*groups, Level::Host) == std::vector<int>{0, 0, 0, 0, 0, 0, 0, 1, 1});
  CHECK(group(*groups, Level::Rail) == std::vector<int>{0, 0, 0, 0, 0, 0, 0, 1, 1});  // no network in it
  CHECK(group(*groups, Level::Cluster) == std::vector<int>(9, 0));
}

TEST_CASE("ranks on GPUs share a rail with their twins on other hosts") {
  const auto graph = parseOneLine("node:3 gpu:4 nic:4x50");
  REQUIRE(graph.ok());
  std::vector<RankPlace> ranks;
  std::vector<int> rails, hosts;
  const std::vector<int> gpus = graph->all(NodeKind::Gpu);
  for (int rank = 0; rank < 12; ++rank) {
    ranks.push_back({static_cast<uint64_t>(rank / 4) + 1,
                     rank,
                     {},
                     graph->nodes[static_cast<size_t>(gpus[static_cast<size_t>(rank)])].busId});
    rails.push_back(rank % 4);
    hosts.push_back(rank / 4);
  }
  const auto groups = levelGroups(*graph, ranks);
  REQUIRE(groups.status().message() == "");
  CHECK(group(*groups, Level::Rail) == rails);
  CHECK(group(*groups, Level::Host) == hosts);
}

TEST_CASE("without rail numbers the place among a host's adapters is the rail") {
  if (!TUTTI_HAVE_PUGIXML) return;
  auto one = loadTopology(goldenPath("h100-azure-ndv5-8gpu-8nic.nccl.xml"));
  REQUIRE(one.ok());
  one->nodes[0].hostHash = 1;
  Graph two = *one;
  two.nodes[0].hostHash = 2;
  const auto both = merge({*one, two});
  REQUIRE(both.ok());
  std::vector<RankPlace> ranks;
  for (const uint64_t host : {uint64_t{1}, uint64_t{2}}) {
    for (const char* gpu : {"0001:00:00.0", "0008:00:00.0", "000c:00:00.0"}) ranks.push_back({host, 0, {}, gpu});
  }
  const auto groups = levelGroups(*both, ranks);
  REQUIRE(groups.status().message() == "");
  CHECK(group(*groups, Level::Rail) == std::vector<int>{0, 1, 2, 0, 1, 2});
  CHECK(group(*groups, Level::Numa) == std::vector<int>{0, 0, 1, 2, 2, 3});
}

TEST_CASE("a rank that the topology does not have is named") {
  const auto graph = parseOneLine("gpu:1");
  REQUIRE(graph.ok());
  const auto host = levelGroups(*graph, {{1, 0, {}, ""}, {7, 0, {}, ""}});
  CHECK(host.status().message() == "rank 1: its host is not in the topology");
  const auto device = levelGroups(*graph, {{1, 0, {}, "99:00.0"}});
  CHECK(device.status().message() == "rank 0: no device 99:00.0 on its host in the topology");
}

TEST_CASE("graphs of several hosts become one, and of one host stay one") {
  const auto one = parseOneLine("node:1 gpu:4 nvlink:4x25 nic:2x25");
  REQUIRE(one.ok());
  Graph other = *one;
  other.nodes[0].hostHash = 77;
  const auto two = merge({*one, other, *one});
  REQUIRE(two.status().message() == "");
  CHECK(two->check() == "");
  CHECK(two->all(NodeKind::Host).size() == 2);
  CHECK(two->all(NodeKind::Gpu).size() == 8);
  CHECK(two->all(NodeKind::Core).size() == 2 * one->all(NodeKind::Core).size());
  CHECK(two->links.size() == 2 * one->links.size());
  const auto again = merge({*two, *two});
  REQUIRE(again.ok());
  CHECK((*again == *two));
}

TEST_CASE("processes that each see one GPU of a host see them all together") {
  const auto whole = parseOneLine("gpu:2 package:1 switch:0");
  REQUIRE(whole.ok());
  std::vector<Graph> views;
  for (const int hidden : whole->all(NodeKind::Gpu)) {
    Graph view = *whole;
    view.nodes.erase(view.nodes.begin() + hidden);  // GPUs come last and have no children
    std::erase_if(view.links, [&](const Link& l) { return l.a == hidden || l.b == hidden; });
    for (Link& l : view.links) l.b -= l.b > hidden;
    REQUIRE(view.check() == "");
    CHECK(view.all(NodeKind::Gpu).size() == 1);
    views.push_back(view);
  }
  const auto merged = merge(views);
  REQUIRE(merged.status().message() == "");
  CHECK(merged->all(NodeKind::Gpu).size() == 2);
  CHECK(merged->all(NodeKind::Host).size() == 1);
  CHECK(merged->links.size() == whole->links.size());
}

TEST_CASE("the same bus id for different kinds of devices is an error") {
  const auto gpu = parseOneLine("gpu:1 switch:0 package:1"), nic = parseOneLine("nic:1x10 switch:0 package:1");
  REQUIRE((gpu.ok() && nic.ok()));
  CHECK(merge({*gpu, *nic}).status().message() == "device 0000:01:00.0 is a GPU and a NIC");
}

TEST_CASE("recorded machines merged with themselves are themselves") {
  for (const std::string name : kMachines) {
    if (!readable(name)) continue;
    DYNAMIC_SECTION(name) {
      auto graph = loadTopology(goldenPath(name));
      REQUIRE(graph.ok());
      graph->nodes[0].hostHash = 42;
      const auto merged = merge({*graph, *graph});
      REQUIRE(merged.status().message() == "");
      CHECK(summary(*merged) == summary(*graph));
      CHECK(merged->nodes.size() == graph->nodes.size());
      CHECK(merged->links.size() == graph->links.size());
    }
  }
}

}  // namespace tutti::topology
