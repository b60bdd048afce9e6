#include "src/topology/one_line.hpp"

#include <catch2/catch.hpp>

#include "src/topology/compact.hpp"
#include "src/topology/load.hpp"
#include "src/topology/named_machines.hpp"
#include "src/topology/nccl_xml.hpp"

namespace tutti::topology {

TEST_CASE("one line describes a cluster") {
  const auto graph = parseTopology("node:4 gpu:8 nvlink:18x25 nic:8x50", "text");
  REQUIRE(graph.status().message() == "");
  CHECK(graph->check() == "");
  CHECK(graph->all(NodeKind::Host).size() == 4);
  CHECK(graph->all(NodeKind::Package).size() == 8);
  CHECK(graph->all(NodeKind::Gpu).size() == 32);
  CHECK(graph->all(NodeKind::Nic).size() == 32);
  CHECK(graph->all(NodeKind::PciSwitch).size() == 32);
  for (const int host : graph->all(NodeKind::Host)) {
    CHECK(graph->all(NodeKind::Gpu, host).size() == 8);
    const int nvSwitch = graph->all(NodeKind::NvSwitch, host).at(0);
    for (const int gpu : graph->all(NodeKind::Gpu, host)) {
      const int link = graph->linkBetween(gpu, nvSwitch, LinkKind::NvLink);
      REQUIRE(link >= 0);
      CHECK(graph->links[static_cast<size_t>(link)].gbps == 450);
    }
  }
}

TEST_CASE("GPUs and adapters are spread in order") {
  const auto graph = parseOneLine("gpu:8 nic:4x25 switch:4 numa:2 core:4");
  REQUIRE(graph.status().message() == "");
  const std::vector<int> gpus = graph->all(NodeKind::Gpu), nics = graph->all(NodeKind::Nic);
  for (int i = 0; i < 8; ++i) {
    const Node& gpu = graph->nodes[static_cast<size_t>(gpus[static_cast<size_t>(i)])];
    const Node& nic = graph->nodes[static_cast<size_t>(nics[static_cast<size_t>(i / 2)])];
    CHECK(gpu.parent == nic.parent);
    const int numa = graph->enclosing(gpus[static_cast<size_t>(i)], NodeKind::Numa);
    CHECK(graph->nodes[static_cast<size_t>(numa)].index == i / 2);
  }
}

TEST_CASE("adapters have the latency that is told, as NCCL's XML has it") {
  for (const char* text : {"gpu:2 nic:2x25 nic-latency:15", "p5.48xlarge"}) {
    CAPTURE(text);
    const auto graph = parseOneLine(text);
    REQUIRE(graph.ok());
    for (const int net : graph->all(NodeKind::Net)) CHECK(graph->nodes[static_cast<size_t>(net)].net.latencyUs == 15);
  }
  for (const int net : parseOneLine("hgx-h100")->all(NodeKind::Net)) {
    CHECK(parseOneLine("hgx-h100")->nodes[static_cast<size_t>(net)].net.latencyUs == 0);
  }
}

TEST_CASE("GPUs without NVSwitches are joined to each other") {
  const auto graph = parseOneLine("gpu:4 nvlink:12x25 nvswitch:0");
  REQUIRE(graph.status().message() == "");
  const std::vector<int> gpus = graph->all(NodeKind::Gpu);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = i + 1; j < 4; ++j) {
      const int link = graph->linkBetween(gpus[i], gpus[j], LinkKind::NvLink);
      REQUIRE(link >= 0);
      CHECK(graph->links[static_cast<size_t>(link)].count == 4);
    }
  }
}

TEST_CASE("GPUs that are parts of their processors are joined to them by C2C") {
  const auto graph = parseOneLine("package:4 gpu:4 c2c:450 nvlink:18x25");
  REQUIRE(graph.status().message() == "");
  for (const int gpu : graph->all(NodeKind::Gpu)) {
    const int link = graph->linkBetween(gpu, graph->enclosing(gpu, NodeKind::Numa), LinkKind::C2C);
    REQUIRE(link >= 0);
    CHECK(graph->links[static_cast<size_t>(link)].gbps == 450);
  }
}

TEST_CASE("GPUs with xGMI are joined to each other and are AMD's") {
  const auto graph = parseOneLine("gcn:gfx942 gpu:8 xgmi:7x48");
  REQUIRE(graph.status().message() == "");
  const std::vector<int> gpus = graph->all(NodeKind::Gpu);
  for (size_t i = 0; i < 8; ++i) {
    CHECK(graph->nodes[static_cast<size_t>(gpus[i])].gpu.gcn == "gfx942");
    CHECK(graph->nodes[static_cast<size_t>(gpus[i])].pci.vendor == 0x1002);
    for (size_t j = i + 1; j < 8; ++j) {
      const int link = graph->linkBetween(gpus[i], gpus[j], LinkKind::Xgmi);
      REQUIRE(link >= 0);
      CHECK(graph->links[static_cast<size_t>(link)].gbps == 48);
    }
  }
}

TEST_CASE("a name stands for its words, and words behind it replace them") {
  for (const NamedMachine& machine : namedMachines()) {
    CAPTURE(machine.name);
    const auto named = parseOneLine(machine.name);
    REQUIRE(named.status().message() == "");
    const auto words = parseOneLine(machine.words);
    REQUIRE(words.status().message() == "");
    CHECK(toCompact(*named) == toCompact(*words));
    CHECK(findNamedMachine(machine.name) == &machine);
    CHECK_FALSE(machine.source.empty());
    CHECK(loadTopology(std::string(machine.name)).ok());
  }
  const auto fewer = parseOneLine("hgx-h100 nic:4x24\nnode:2");
  REQUIRE(fewer.status().message() == "");
  CHECK(fewer->all(NodeKind::Host).size() == 2);
  CHECK(fewer->all(NodeKind::Net).size() == 8);
  CHECK(fewer->all(NodeKind::Gpu).size() == 16);
}

TEST_CASE("a line that is wrong is refused with the word") {
  struct Row {
    const char *text, *message;
  };
  const auto row = GENERATE(values<Row>({{"", "nothing in it"},
                                         {"gpu", "'gpu' is not KEY:VALUE"},
                                         {"gpu:", "'' is not a whole number"},
                                         {"gpu:-1", "-1 is outside 0..128"},
                                         {"gpu:8 gpu:8", "'gpu' is there twice"},
                                         {"cpu:8", "the words are node,"},
                                         {"gpu:8 nvlink:18", "'nvlink:18' is not NUMBERxBANDWIDTH"},
                                         {"gpu:8 nvlink:18xfast", "'fast' is not a bandwidth"},
                                         {"gpu:8 nvlink:18xnan", "'nan' is not a bandwidth"},
                                         {"gpu:8 nvlink:18x0", "'0' is not a bandwidth"},
                                         {"nvlink:18x25", "nvlink without gpu"},
                                         {"hgx-h99", "no machine has that name; there are dgx-2, "},
                                         {"gpu:8 hgx-h100", "'hgx-h100' is not KEY:VALUE"},
                                         {"hgx-h100 dgx-2", "'dgx-2' is not KEY:VALUE"},
                                         {"hgx-h100 nic:1x1 nic:1x1", "'nic' is there twice"},
                                         {"mi300x nvlink:1x1", "GPUs of AMD have xgmi"},
                                         {"xgmi:7x48", "xgmi without gpu"},
                                         {"gpu:8 xgmi:7x48", "xgmi without gcn"},
                                         {"gcn:gfx942 gpu:8 xgmi:8x48", "do not go evenly"},
                                         {"gcn:gfx1100 gpu:8", "no architecture with xGMI links"},
                                         {"c2c:450", "c2c without gpu"},
                                         {"gpu:8 nvlink:18x25 nvswitch:0", "do not go evenly"},
                                         {"gpu:8 nvlink:2x25 nvswitch:4", "more NVSwitches than links"},
                                         {"gpu:8 pcie:16", "'pcie:16' is not SPEEDxLANES"},
                                         {"nic:1x1 nic-latency:-1", "'-1' is not a time in microseconds"},
                                         {"nic:1x1 nic-latency:soon", "'soon' is not a time in microseconds"},
                                         {"nic:1x1 nic-pci:1d0f", "'nic-pci:1d0f' is not VENDOR:DEVICE"},
                                         {"nic:1x1 nic-pci:1d0f:efag", "'nic-pci:1d0f:efag' is not VENDOR:DEVICE"},
                                         {"nic:1x1 nic-pci:-d0f:efa1", "'nic-pci:-d0f:efa1' is not VENDOR:DEVICE"},
                                         {"node:131072 gpu:128 nic:128x1", "too large a machine"},
                                         {"package:64 numa:64 l3:64 core:1024", "more than 65536 cores"}}));
  CAPTURE(row.text);
  const auto graph = parseOneLine(row.text);
  REQUIRE_FALSE(graph.ok());
  CAPTURE(graph.status().message());
  CHECK(graph.status().message().find(row.message) != std::string::npos);
}

TEST_CASE("a line survives being written as XML") {
  if (!TUTTI_HAVE_PUGIXML) return;
  for (const char* line : {"node:3 gpu:8 nvlink:18x25 nic:8x50", "gpu:4 nvlink:12x25.5 nvswitch:0 pcie:16x8",
                           "node:2 core:3", "nic:2x0.3 switch:0"}) {
    CAPTURE(line);
    const auto graph = parseOneLine(line);
    REQUIRE(graph.ok());
    const auto again = readNcclXml(writeNcclXml(*graph), "again");
    REQUIRE(again.status().message() == "");
    for (int kind = 0; kind < kNumNodeKinds; ++kind) {
      const auto k = static_cast<NodeKind>(kind);
      if (k == NodeKind::Package || k == NodeKind::L3 || k == NodeKind::Core) continue;
      CHECK(again->all(k).size() == graph->all(k).size());
    }
    CHECK(again->links.size() == graph->links.size());
    double before = 0, after = 0;
    for (const Link& l : graph->links) before += l.kind == LinkKind::Socket ? 0 : l.gbps;
    for (const Link& l : again->links) after += l.kind == LinkKind::Socket ? 0 : l.gbps;
    CHECK(after == Approx(before));
  }
}

}  // namespace tutti::topology
