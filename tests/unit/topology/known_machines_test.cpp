// Real machines: every file reads, prints, and holds what tests/golden/topologies/expected.txt says.
// With TUTTI_TEST_WRITE_GOLDEN=PATH the test writes there what it found, to be read and compared by a person.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "src/topology/nccl_xml.hpp"
#include "tests/unit/topology/machines.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

std::string section(const std::string& all, const std::string& name) {
  const std::string head = "== " + name + "\n";
  const size_t at = all.find(head);
  if (at == std::string::npos) return "no section in expected.txt";
  const size_t start = at + head.size();
  return all.substr(start, all.find("== ", start) - start);
}

}  // namespace

TEST_CASE("recorded machines hold what is expected of them") {
  const std::string expected = readFile(goldenPath("expected.txt"));
  std::string written;
  for (const std::string name : kMachines) {
    if (!readable(name)) continue;
    DYNAMIC_SECTION(name) {
      const auto graph = loadTopology(goldenPath(name));
      REQUIRE(graph.status().message() == "");
      CHECK(graph->check() == "");
      if (const char* path = std::getenv("TUTTI_TEST_WRITE_GOLDEN")) {
        std::ofstream(path, std::ios::app) << "== " << name << "\n" << summary(*graph);
      } else {
        CHECK(summary(*graph) == section(expected, name));
      }
      CHECK(toText(*graph).find("NUMA 0") != std::string::npos);
    }
  }
}

TEST_CASE("counts of recorded machines are those that their sources state") {
  struct Row {
    const char* file;
    int numas, switches, gpus, nics, nvSwitches;
    LinkKind lanes;
    int laneLinks, laneCount;  // links between GPUs or to NVSwitches; lanes in all
  };
  const auto row = GENERATE(values<Row>({
      {"a100-perlmutter-4gpu-4nic.nccl.xml", 4, 0, 4, 4, 0, LinkKind::NvLink, 6, 24},
      {"a100-azure-ndv4-8gpu-8nic.nccl.xml", 4, 4, 8, 8, 0, LinkKind::NvLink, 0, 0},
      {"a100-aws-p4d-8gpu-4nic.nccl.xml", 2, 4, 8, 4, 0, LinkKind::NvLink, 0, 0},
      {"h100-azure-ndv5-8gpu-8nic.nccl.xml", 2, 8, 8, 8, 0, LinkKind::NvLink, 0, 0},
      {"h200-hgx-8gpu-nvswitch-tcponly.nccl.xml", 2, 8, 8, 1, 4, LinkKind::NvLink, 32, 144},
      {"b200-vm-8gpu-13nic.nccl.xml", 2, 0, 8, 3, 1, LinkKind::NvLink, 8, 144},
      {"pcie6-cx8-8gpu-12nic.nccl.xml", 2, 16, 8, 9, 0, LinkKind::NvLink, 0, 0},
      {"mi300x-8gpu-8nic.nccl.xml", 2, 24, 8, 8, 0, LinkKind::Xgmi, 28, 28},
      {"amd-16gpu-8nic.nccl.xml", 4, 28, 16, 8, 0, LinkKind::Xgmi, 28, 56},
  }));
  if (!TUTTI_HAVE_PUGIXML) return;
  CAPTURE(row.file);
  const auto graph = loadTopology(goldenPath(row.file));
  REQUIRE(graph.status().message() == "");
  CHECK(graph->all(NodeKind::Host).size() == 1);
  CHECK(graph->all(NodeKind::Numa).size() == static_cast<size_t>(row.numas));
  CHECK(graph->all(NodeKind::PciSwitch).size() == static_cast<size_t>(row.switches));
  CHECK(graph->all(NodeKind::Gpu).size() == static_cast<size_t>(row.gpus));
  CHECK(graph->all(NodeKind::Nic).size() == static_cast<size_t>(row.nics));
  CHECK(graph->all(NodeKind::NvSwitch).size() == static_cast<size_t>(row.nvSwitches));
  int links = 0, lanes = 0;
  for (const Link& l : graph->links) {
    if (l.kind != row.lanes) continue;
    ++links;
    lanes += l.count;
  }
  CHECK(links == row.laneLinks);
  CHECK(lanes == row.laneCount);
}

TEST_CASE("NCCL files survive being written and read again") {
  for (const std::string name : kMachines) {
    if (!readable(name) || name.find(".nccl.") == std::string::npos) continue;
    DYNAMIC_SECTION(name) {
      const auto first = loadTopology(goldenPath(name));
      REQUIRE(first.status().message() == "");
      auto second = parseTopology(writeNcclXml(*first), "again");
      REQUIRE(second.status().message() == "");
      second->notes = first->notes;  // they name lines of the file
      CHECK(summary(*second) == summary(*first));
      CHECK((*second == *first));
    }
  }
}

TEST_CASE("hwloc files become NCCL files with the same devices") {
  for (const std::string name : kMachines) {
    if (!readable(name) || !TUTTI_HAVE_PUGIXML || name.find(".hwloc.") == std::string::npos) continue;
    DYNAMIC_SECTION(name) {
      const auto first = loadTopology(goldenPath(name));
      REQUIRE(first.status().message() == "");
      const auto second = parseTopology(writeNcclXml(*first), "again");
      REQUIRE(second.status().message() == "");
      for (const NodeKind kind : {NodeKind::Numa, NodeKind::PciSwitch, NodeKind::Gpu, NodeKind::Nic, NodeKind::Net}) {
        CHECK(second->all(kind).size() == first->all(kind).size());
      }
      for (const int gpu : first->all(NodeKind::Gpu)) {
        const std::string& busId = first->nodes[static_cast<size_t>(gpu)].busId;
        const int again = second->byBusId(busId, 0);
        REQUIRE(again >= 0);
        const int numa = first->enclosing(gpu, NodeKind::Numa), numaAgain = second->enclosing(again, NodeKind::Numa);
        CHECK(first->nodes[static_cast<size_t>(numa)].index == second->nodes[static_cast<size_t>(numaAgain)].index);
      }
    }
  }
}

}  // namespace tutti::topology
