// Rings and trees of real machines: what the search finds on them, alone and as 2, 3 and 32 hosts of the kind, is in
// tests/golden/topologies/rings.txt (totals, classes and bounds; among equally good orders machines may differ).
// With TUTTI_TEST_WRITE_GOLDEN=PATH the test writes there what it found, to be read and compared by a person.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/unit/topology/machines.hpp"
#include "tests/unit/topology/search_machines.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

std::string ringSection(const std::string& all, const std::string& name) {
  const std::string head = "== " + name + "\n";
  const size_t at = all.find(head);
  if (at == std::string::npos) return "no section in rings.txt";
  const size_t start = at + head.size();
  return all.substr(start, all.find("== ", start) - start);
}

/// The lines that do not depend on which of several best answers was found, and what the answer rests on.
std::string totals(const Graph& graph, const ChannelPlan& plan) {
  const std::string text = toText(graph, plan);
  const size_t untold = std::min(text.size(), text.find("not told\n"));
  std::string lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    if (text[at] != ' ' || at > untold) lines += text.substr(at, end - at);
    at = end;
  }
  return lines;
}

}  // namespace

TEST_CASE("rings and trees on recorded machines are those that are known, and sound") {
  const std::string expected = readFile(goldenPath("rings.txt"));
  for (const std::string name : kMachines) {
    if (!readable(name)) continue;
    const auto one = loadTopology(goldenPath(name));
    REQUIRE(one.status().message() == "");
    for (const int hosts : {1, 2, 3, 32}) {
      const std::string title = cat(name, ", ", hosts, hosts == 1 ? " host" : " hosts");
      DYNAMIC_SECTION(title) {
        const Graph graph = hosts == 1 ? *one : hostsLike(*one, hosts);
        const auto plan = planChannels(graph, {});
        REQUIRE(plan.status().message() == "");
        CHECK(complaintAbout(graph, *devicesOf(graph, {}), *plan) == "");
        if (const char* path = std::getenv("TUTTI_TEST_WRITE_GOLDEN")) {
          std::ofstream(path, std::ios::app) << "== " << title << "\n" << totals(graph, *plan);
        } else {
          CHECK(totals(graph, *plan) == ringSection(expected, title));
        }
      }
    }
  }
}

TEST_CASE("recorded meshes are used up to their narrowest cut") {
  struct Row {
    const char* file;
    double gbps;
  };
  const auto row = GENERATE(values<Row>({{"a100-perlmutter-4gpu-4nic.nccl.xml", 240},
                                         {"mi300x-8gpu-8nic.nccl.xml", 336},
                                         {"amd-16gpu-8nic.nccl.xml", 216}}));
  if (!TUTTI_HAVE_PUGIXML) return;
  CAPTURE(row.file);
  const auto graph = loadTopology(goldenPath(row.file));
  REQUIRE(graph.status().message() == "");
  const auto plan = planChannels(*graph, {});
  REQUIRE(plan.status().message() == "");
  CHECK(leastCut(*graph, graph->all(NodeKind::Gpu)) == Approx(row.gbps));
  CHECK(plan->rings.totalGBps() == Approx(row.gbps).epsilon(1e-5));
}

TEST_CASE("rings are drawn: every device in the wheel of all rings and in one wheel for each that differs") {
  struct Row {
    const char* line;
    size_t wheels, devices;
    const char *caption, *total;
  };
  const auto row = GENERATE(values<Row>({
      {"gpu:8 nvlink:7x48 nvswitch:0", 8, 8, ">channel 6<", "7 rings x 48 GB/s = 336 GB/s"},
      {"gpu:8 nvlink:18x20.6", 1, 8, ">channels 0 to 6<", "7 rings x 53 GB/s = 371 GB/s"},
      {"node:2 gpu:2 nvlink:4x25 nic:2x12.5", 3, 2, ">channel 1<", "25 GB/s through 2 hosts"},
      {"package:2", 1, 2, ">channel 0<", "1 ring x 22 GB/s"},
      {"gpu:1", 1, 1, ">channel 0<", "1 ring"},
  }));
  CAPTURE(row.line);
  const auto graph = parseTopology(row.line, "line");
  REQUIRE(graph.status().message() == "");
  const auto plan = planChannels(*graph, {});
  REQUIRE(plan.status().message() == "");
  const std::string svg = toSvg(*graph, &*plan);
  size_t circles = 0;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++circles;
  CHECK(circles == row.wheels * row.devices);
  CHECK(svg.find(row.caption) != std::string::npos);
  CHECK(svg.find(row.total) != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
}

// What NCCL's own search is known to find, from logs and graph files that its users published.
TEST_CASE("rings carry no less than NCCL's on the machines whose NCCL logs are known") {
  struct Row {
    const char* machine;  // a recorded one or a line
    double ncclGBps;      // channels x speed
    const char* source;
  };
  const auto row = GENERATE(values<Row>({
      {"gpu:8 nvlink:12x20 sm:80", 12 * 20, "A100 with NVSwitch: Pattern 4, nChannels 12, bw 20, in many logs"},
      {"h200-hgx-8gpu-nvswitch-tcponly.nccl.xml", 12 * 30, "NVIDIA/nccl#1367 and #1197: H100, 12 of 30"},
      {"b200-vm-8gpu-13nic.nccl.xml", 8 * 90, "the most that NCCL's speeds allow of 18 x 40.1"},
      {"gpu:4 nvlink:6x22 nvswitch:0 sm:70", 6 * 22, "NVIDIA/nccl#713: 4 V100, 2 links between any two"},
      {"gpu:4 nvlink:12x20 nvswitch:0 sm:80", 4 * 40,
       "NVIDIA/nccl#713: 4 A100, 4 channels; 40 is the highest of its speeds"},
      {"gpu:8 pcie:16x16 socket:5", 5, "NVIDIA/nccl-tests#307: 8 RTX 4090 on two sockets, nChannels 1, bw 5"},
      {"node:2 gpu:2 nvlink:18x20.6 nic:2x50", 4 * 24, "NVIDIA/nccl#1189: 2 H20, 2 adapters, nChannels 4, bw 24"},
  }));
  CAPTURE(row.machine, row.source);
  const std::string machine = row.machine;
  const bool recorded = machine.ends_with(".xml");
  if (recorded && !readable(machine)) return;
  const auto graph = recorded ? loadTopology(goldenPath(machine)) : parseTopology(machine, "line");
  REQUIRE(graph.status().message() == "");
  const auto plan = planChannels(*graph, {});
  REQUIRE(plan.status().message() == "");
  CHECK(plan->rings.totalGBps() >= row.ncclGBps * (1 - 1e-6));
}

}  // namespace tutti::topology
