// Rings and trees on machines whose best is known: from counting links, or from a cut that every ring crosses.
#include <catch2/catch.hpp>
#include <numeric>

#include "src/topology/load.hpp"
#include "tests/unit/topology/search_machines.hpp"
#include "tools/topology/search/columns.hpp"
#include "tools/topology/search/double_tree.hpp"
#include "tools/topology/search/machine.hpp"

namespace tutti::topology {
namespace {

Graph line(const char* text) {
  auto graph = parseTopology(text, "line");
  REQUIRE(graph.status().message() == "");
  return *graph;
}

ChannelPlan planned(const Graph& graph, const ChannelQuestion& q = {}) {
  const auto plan = planChannels(graph, q);
  REQUIRE(plan.status().message() == "");
  CHECK(complaintAbout(graph, *devicesOf(graph, q), *plan) == "");
  return *plan;
}

constexpr double kClose = 1e-5;

}  // namespace

TEST_CASE("rings carry all that the machine's narrowest cut lets through") {
  struct Row {
    const char* machine;
    double gbps;  // together
  };
  const auto row = GENERATE(values<Row>({
      {"gpu:8 nvlink:18x20.6", 370.8},             // every GPU's links to the NVSwitch
      {"gpu:2 nvlink:12x20", 240},                 //
      {"gpu:3 nvlink:12x20 nvswitch:6", 240},      // over six NVSwitches side by side
      {"gpu:8 nvlink:7x48 nvswitch:0", 336},       // full mesh: 7 rings that share no link (Tillson 1980)
      {"gpu:4 nvlink:12x20 nvswitch:0", 240},      // no 3 such rings exist among 4 or 6, but 6 and 15 of part of a link
      {"gpu:6 nvlink:5x48 nvswitch:0", 240},       //
      {"gpu:7 nvlink:6x48 nvswitch:0", 288},       //
      {"gpu:2 nvlink:3x25 nvswitch:0", 75},        //
      {"gpu:8 package:2 switch:4 socket:10", 10},  // PCIe: the link between the sockets
      {"gpu:8 package:1 switch:4", 48},            // PCIe: every link once in each direction
      {"gpu:5 package:1", 48},                     //
      {"package:2 socket:20", 20},                 // no GPU: host memory of two NUMA nodes
      {"node:2 gpu:8 nvlink:18x25 nic:8x50", 384},  // PCIe to eight adapters
      {"node:3 gpu:8 nvlink:18x25 nic:4x25", 100},  // four ports
      {"node:5 gpu:1 nic:1x25", 25},                //
      {"node:2 gpu:2 nvlink:4x25 nic:2x12.5", 25},  //
  }));
  CAPTURE(row.machine);
  const Graph graph = line(row.machine);
  const ChannelSet rings = planned(graph).rings;
  CHECK(rings.totalGBps() == Approx(row.gbps).epsilon(kClose));
  CHECK(rings.boundGBps == Approx(row.gbps).epsilon(kClose));
  CHECK(!rings.limits.empty());
}

TEST_CASE("the hybrid cube mesh of a DGX-1 carries six rings over single NVLinks") {
  const Graph graph = dgx1();
  const ChannelSet rings = planned(graph).rings;
  CHECK(rings.totalGBps() == Approx(120).epsilon(kClose));
  CHECK(rings.totalGBps() == Approx(leastCut(graph, graph.all(NodeKind::Gpu))).epsilon(kClose));
  CHECK(rings.channels.size() == 6);
  CHECK(rings.intra == PathClass::Nvl);
}

TEST_CASE("any GPUs of a DGX-1 get no less than their cut where NVLink joins them, and PCIe where it does not") {
  const Graph graph = dgx1();
  const std::vector<int> gpus = graph.all(NodeKind::Gpu);
  for (unsigned set = 1; set < 256; ++set) {
    ChannelQuestion q;
    for (size_t i = 0; i < 8; ++i) {
      if (set >> i & 1) q.devices.push_back(gpus[i]);
    }
    CAPTURE(set);
    const ChannelSet rings = planned(graph, q).rings;
    if (q.devices.size() == 1) {
      CHECK(rings.channels.size() == 1);
      continue;
    }
    CHECK(rings.boundGBps > 0);
    if (rings.intra == PathClass::Nvl) CHECK(rings.totalGBps() <= leastCut(graph, q.devices) * (1 + kClose));
    CHECK(rings.totalGBps() >= 0.8 * rings.boundGBps);
    CHECK(rings.totalGBps() >= 10 * (1 - kClose));  // the socket link is always there
  }
}

TEST_CASE("four GPUs in two NVLink pairs: rings cross PCIe, each pair's NVLink is used") {
  const Graph graph = twoSockets(4, {{0, 1, 4}, {2, 3, 4}}, 20);
  const ChannelSet rings = planned(graph).rings;
  CHECK(rings.totalGBps() == Approx(10).epsilon(kClose));  // the link between the sockets
  CHECK(rings.intra == PathClass::Sys);
  const auto loads = linkLoads(graph, rings);
  for (size_t i = 0; i < graph.links.size(); ++i) {
    if (graph.links[i].kind == LinkKind::NvLink) CHECK((*loads)[i] > 0);
  }
}

TEST_CASE("rings stay on their rails, or cross where a port's neighbours gain by it") {
  const Graph graph = line("node:4 gpu:8 nvlink:18x25 nic:8x25");
  for (const CrossNic cross : {CrossNic::Never, CrossNic::Always, CrossNic::Auto}) {
    ChannelQuestion q;
    q.crossNic = cross;
    const ChannelSet rings = planned(graph, q).rings;
    CHECK(rings.totalGBps() == Approx(200).epsilon(kClose));
    CHECK(rings.crossNic == (cross == CrossNic::Always));
    for (const Channel& channel : rings.channels) {
      REQUIRE(channel.stretches.size() == 4);
      for (size_t h = 0; h + 1 < 4; ++h) {
        const int out = channel.stretches[h].exit, in = channel.stretches[h + 1].entry;
        CHECK(graph.nodes[static_cast<size_t>(out)].net.rail == graph.nodes[static_cast<size_t>(in)].net.rail);
      }
    }
  }
  // Two adapters, one at each socket, and PCIe alone: in by one and out by the other halves what crosses the sockets.
  const ChannelSet crossing = planned(line("node:4 gpu:8 nic:2x50")).rings;
  CHECK(crossing.crossNic);
  CHECK(crossing.totalGBps() == Approx(44).epsilon(kClose));
}

TEST_CASE("hosts that differ agree on the number of channels and their speed") {
  Graph big = line("gpu:8 nvlink:18x25 nic:8x25"), small = line("gpu:2 nvlink:4x25 nic:2x25");
  big.nodes.front().hostHash = 1;
  small.nodes.front().hostHash = 2;
  const auto both = merge({big, small});
  REQUIRE(both.status().message() == "");
  const ChannelPlan plan = planned(*both);
  CHECK(plan.rings.totalGBps() == Approx(50).epsilon(kClose));
  for (const Channel& channel : plan.rings.channels) CHECK(channel.stretches.size() == 2);
}

TEST_CASE("hosts that are alike are searched once") {
  const Graph graph = line("node:32 gpu:8 nvlink:18x25 nic:8x50");
  const Machine machine = machineOf(graph, graph.all(NodeKind::Gpu));
  CHECK(machine.hosts.size() == 32);
  CHECK(machine.models.size() == 1);
  const ChannelPlan plan = planned(graph);
  CHECK(plan.rings.totalGBps() == Approx(384).epsilon(kClose));
  for (const ChannelSet* set : {&plan.rings, &plan.trees}) {
    for (const Channel& channel : set->channels) CHECK(channel.stretches.size() == 32);
  }
}

TEST_CASE("the same question has the same answer, whoever asks, and GPUs in another order the same bandwidth") {
  const Graph graph = dgx1();
  ChannelQuestion q;
  q.devices = graph.all(NodeKind::Gpu);
  const ChannelPlan first = planned(graph, q);
  CHECK((planned(graph, q) == first));
  std::reverse(q.devices.begin(), q.devices.end());
  CHECK(planned(graph, q).rings.totalGBps() == Approx(first.rings.totalGBps()).epsilon(kClose));
}

TEST_CASE("fewer channels are found where no more are wanted") {
  const Graph graph = line("gpu:8 nvlink:18x20.6");
  ChannelQuestion q;
  q.mostChannels = 3;
  const ChannelPlan plan = planned(graph, q);
  CHECK(plan.rings.channels.size() == 3);
  CHECK(plan.rings.gbps == Approx(60));  // what one channel can move
  CHECK(plan.trees.channels.size() <= 3);
}

TEST_CASE("what cannot be planned is refused by name") {
  const auto complaint = [](const Graph& graph, const ChannelQuestion& q = {}) {
    const auto plan = planChannels(graph, q);
    return plan.ok() ? std::string("a plan") : plan.status().message();
  };
  const Graph graph = dgx1();
  ChannelQuestion q;
  q.devices = {graph.all(NodeKind::Gpu)[2], graph.all(NodeKind::Gpu)[2]};
  CHECK_THAT(complaint(graph, q), Catch::Contains("GPU 2") && Catch::Contains("twice"));
  q.devices = {0};
  CHECK_THAT(complaint(graph, q), Catch::Contains("box") && Catch::Contains("neither"));
  q.devices = {4711};
  CHECK_THAT(complaint(graph, q), Catch::Contains("node 4711"));
  q = {};
  q.mostChannels = 0;
  CHECK_THAT(complaint(graph, q), Catch::Contains("0 channels"));
  CHECK_THAT(complaint(line("node:2 gpu:8")), Catch::Contains("host 0") && Catch::Contains("no network port"));
  Graph cut = twoSockets(3, {}, 20);
  std::erase_if(cut.links, [&](const Link& l) { return l.b == cut.all(NodeKind::Gpu)[1]; });
  CHECK_THAT(complaint(cut), Catch::Contains("no link leads from GPU 1"));
  CHECK_THAT(complaint({}), Catch::Contains("neither GPUs nor NUMA nodes"));
}

TEST_CASE("two binary trees: each reaches all hosts, and no host has more than four neighbours in both together") {
  for (int n = 1; n <= 65; ++n) {
    CAPTURE(n);
    std::vector<int> below[2];
    for (int form = 0; form < 2; ++form) {
      below[form].assign(static_cast<size_t>(n), 0);
      int roots = 0;
      for (int host = 0; host < n; ++host) {
        const int parent = treeParent(host, n, form);
        roots += parent < 0;
        if (parent >= 0) ++below[form][static_cast<size_t>(parent)];
        int at = host, steps = 0;
        while (at >= 0 && steps <= n) at = treeParent(at, n, form), ++steps;
        CHECK(at < 0);
        CHECK(steps <= 9);  // the height grows with the logarithm
      }
      CHECK(roots == 1);
      CHECK(*std::max_element(below[form].begin(), below[form].end()) <= 2);
    }
    for (size_t host = 0; host < static_cast<size_t>(n) && n > 2; ++host) {
      // Two ways in and out of every port for each tree in the mean; only the first host may have hosts below in both.
      const int above =
          (treeParent(static_cast<int>(host), n, 0) >= 0) + (treeParent(static_cast<int>(host), n, 1) >= 0);
      CHECK(below[0][host] + below[1][host] + above <= 2 * treePortUse(n));
      CHECK((host == 0 || below[0][host] == 0 || below[1][host] == 0));
    }
  }
}

TEST_CASE("loads are told for both directions and every host") {
  const Graph graph = line("node:2 gpu:2 nvlink:4x25 nic:2x12.5");
  const ChannelPlan plan = planned(graph);
  const auto loads = linkLoads(graph, plan.rings);
  double ports = 0;
  for (size_t i = 0; i < graph.links.size(); ++i) ports += graph.links[i].kind == LinkKind::Port ? (*loads)[i] : 0;
  CHECK(ports == Approx(4 * 12.5).epsilon(kClose));
}

}  // namespace tutti::topology
