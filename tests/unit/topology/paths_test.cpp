#include "src/topology/paths.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "src/topology/merge.hpp"
#include "src/topology/one_line.hpp"
#include "tests/unit/topology/machines.hpp"

namespace tutti::topology {
namespace {

/// A device by the name that people see; "NUMA 0" too.
int named(const Graph& g, const std::string& name) {
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const bool switchOrPort = g.nodes[i].kind == NodeKind::Nic && !g.children(static_cast<int>(i)).empty();
    if (g.nodes[i].name == name && !switchOrPort) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

TEST_CASE("paths on recorded machines") {
  struct Row {
    const char *file, *a, *b, *type;
    double gbps;
  };
  const char* const h200 = "h200-hgx-8gpu-nvswitch-tcponly.nccl.xml";
  const char* const perlmutter = "a100-perlmutter-4gpu-4nic.nccl.xml";
  const char* const ndv5 = "h100-azure-ndv5-8gpu-8nic.nccl.xml";
  const char* const ndv4 = "a100-azure-ndv4-8gpu-8nic.nccl.xml";
  const char* const mi300x = "mi300x-8gpu-8nic.nccl.xml";
  const char* const amd16 = "amd-16gpu-8nic.nccl.xml";
  const char* const cx8 = "pcie6-cx8-8gpu-12nic.nccl.xml";
  const char* const b200 = "b200-vm-8gpu-13nic.nccl.xml";
  const char* const summit = "power9-summit-6gpu-4nic.hwloc.xml";
  const char* const p5 = "h100-aws-p5-8gpu-32efa.hwloc.xml";
  const auto row = GENERATE_COPY(values<Row>({
      {h200, "GPU 0", "GPU 0", "LOC", INFINITY},
      {h200, "GPU 0", "GPU 1", "NVL", 18 * 20.6},  // over all four NVSwitches
      {h200, "GPU 0", "GPU 7", "NVL", 18 * 20.6},
      {h200, "GPU 0", "eth0", "PHB", 1.25},
      {h200, "GPU 7", "eth0", "PHB", 1.25},
      {h200, "GPU 0", "NUMA 0", "PHB", 48},
      {h200, "GPU 0", "NUMA 1", "SYS", 40},
      {h200, "NUMA 0", "NUMA 1", "SYS", 40},
      {perlmutter, "GPU 0", "GPU 3", "NVL", 80},
      {perlmutter, "GPU 0", "cxi3", "PHB", 24},
      {perlmutter, "GPU 0", "cxi0", "SYS", 16},  // no peer is nearer than PHB, so no PXN
      {ndv5, "GPU 0", "NIC 0", "PIX", 48},
      {ndv5, "GPU 0", "NIC 1", "PHB", 48},
      {ndv5, "GPU 0", "GPU 1", "PHB", 48},
      {ndv5, "GPU 0", "GPU 4", "SYS", 22},
      {ndv4, "GPU 0", "GPU 1", "PIX", 24},
      {ndv4, "GPU 0", "NIC 1", "PIX", 24},
      {ndv4, "GPU 0", "GPU 2", "SYS", 16},
      {mi300x, "GPU 0", "GPU 7", "NVL", 48},
      {mi300x, "GPU 0", "mlx5_0", "PXB", 48},
      {mi300x, "GPU 0", "mlx5_1", "PXN", 48},  // through GPU 1
      {mi300x, "mlx5_1", "GPU 0", "PXN", 48},
      {amd16, "GPU 0", "GPU 1", "NVL", 144},
      {amd16, "GPU 0", "GPU 5", "NVB", 72},
      {cx8, "GPU 0", "mlx5_bond_0", "PXB", 1.25},
      {cx8, "GPU 0", "GPU 1", "PHB", 48},
      {b200, "GPU 0", "GPU 7", "NVL", 18 * 40.1},
      {b200, "GPU 0", "mlx5_5", "PHB", 12},
      {b200, "GPU 0", "mlx5_9", "SYS", 12},
      {summit, "GPU 0", "GPU 1", "PIX", 12},
      {summit, "GPU 0", "GPU 3", "SYS", 3},  // the switches are x4: data goes by NVLink, which hwloc does not show
      {summit, "GPU 0", "mlx5_0", "PHB", 1.25},
      {p5, "GPU 0", "rdmap79s0", "PIX", 1.25},
      {p5, "GPU 0", "rdmap96s0", "PHB", 1.25},
  }));
  if (!readable(row.file)) return;
  CAPTURE(row.file, row.a, row.b);
  const auto graph = loadTopology(goldenPath(row.file));
  REQUIRE(graph.status().message() == "");
  const Paths paths(*graph);
  const auto path = paths.between(named(*graph, row.a), named(*graph, row.b));
  REQUIRE(path.status().message() == "");
  CHECK(std::string(className(path->type)) == row.type);
  if (std::isfinite(row.gbps)) CHECK(path->gbps == Approx(row.gbps));
}

TEST_CASE("paths are symmetric, lead over links, and stay within their bandwidth") {
  for (const std::string name : kMachines) {
    if (!readable(name)) continue;
    DYNAMIC_SECTION(name) {
      const auto loaded = loadTopology(goldenPath(name));
      REQUIRE(loaded.status().message() == "");
      const Graph& g = *loaded;
      const Paths paths(g);
      std::vector<int> devices;
      for (size_t i = 0; i < g.nodes.size(); ++i) {
        if (paths.between(static_cast<int>(i), static_cast<int>(i)).ok()) devices.push_back(static_cast<int>(i));
      }
      int wrong = 0;
      for (const int a : devices) {
        for (const int b : devices) {
          const Path there = paths.between(a, b).value(), back = paths.between(b, a).value();
          wrong += there.type != back.type || there.hops() != back.hops() || !(there.gbps > 0);
          wrong += there.nodes.front() != a || there.nodes.back() != b;
          for (size_t i = 0; i + 1 < there.nodes.size(); ++i) {
            bool linked = false;
            for (const Link& l : g.links) {
              linked = linked || (l.a == there.nodes[i] && l.b == there.nodes[i + 1]) ||
                       (l.b == there.nodes[i] && l.a == there.nodes[i + 1]);
            }
            wrong += !linked;
          }
        }
      }
      CHECK(wrong == 0);
      CHECK(pathTable(g, paths).find("LOC") != std::string::npos);
    }
  }
}

TEST_CASE("GPUs find their own adapters") {
  const auto graph = parseOneLine("gpu:8 nvlink:18x25 nic:8x50");
  REQUIRE(graph.ok());
  const Paths paths(*graph);
  const std::vector<int> gpus = graph->all(NodeKind::Gpu), nets = graph->all(NodeKind::Net);
  for (size_t i = 0; i < 8; ++i) {
    CHECK(paths.netsOf(gpus[i]).front() == nets[i]);
    CHECK(paths.netsOf(gpus[i]).size() == 8);
    CHECK(paths.between(gpus[i], nets[i])->type == PathClass::Pix);
    CHECK(paths.between(gpus[i], nets[(i + 1) % 8])->type == PathClass::Pxn);
  }
}

TEST_CASE("GPUs that are equally close to several adapters share them out") {
  const auto graph = parseOneLine("gpu:4 nic:4x50 switch:1 package:1");
  REQUIRE(graph.ok());
  const Paths paths(*graph);
  std::vector<int> first;
  for (const int gpu : graph->all(NodeKind::Gpu)) first.push_back(paths.netsOf(gpu).front());
  CHECK(first == graph->all(NodeKind::Net));
}

TEST_CASE("between hosts a path keeps to its rail") {
  const auto graph = parseOneLine("node:2 gpu:8 nvlink:18x25 nic:8x50");
  REQUIRE(graph.ok());
  const Paths paths(*graph);
  const std::vector<int> gpus = graph->all(NodeKind::Gpu), nets = graph->all(NodeKind::Net);
  const auto same = paths.between(gpus[3], gpus[8 + 3]);
  REQUIRE(same.ok());
  CHECK(same->type == PathClass::Net);
  CHECK(same->gbps == Approx(48));
  CHECK(std::count(same->nodes.begin(), same->nodes.end(), nets[3]) == 1);
  CHECK(std::count(same->nodes.begin(), same->nodes.end(), nets[8 + 3]) == 1);
  const auto across = paths.between(gpus[3], gpus[8 + 5]);  // on rail 3 to the other host, over NVLink there
  CHECK(std::count(across->nodes.begin(), across->nodes.end(), nets[8 + 3]) == 1);
  CHECK(paths.between(gpus[0], graph->all(NodeKind::Core)[0]).ok() == false);
  CHECK(paths.between(-1, gpus[0]).ok() == false);
}

TEST_CASE("hosts without adapters are out of reach") {
  const auto graph = parseOneLine("node:2 core:2");
  REQUIRE(graph.ok());
  const Paths paths(*graph);
  const std::vector<int> numas = graph->all(NodeKind::Numa);
  CHECK(paths.between(numas[0], numas[1])->type == PathClass::Dis);
}

TEST_CASE("a GPU that is part of its processor goes by C2C") {
  if (!TUTTI_HAVE_PUGIXML) return;
  const auto graph = parseTopology(
      "<system><cpu numaid='0' arch='arm64'><pci busid='1:0.0' class='0x030200'><gpu dev='0' sm='90'>"
      "<c2c bw='44712' count='10'/></gpu></pci>"
      "<pci busid='2:0.0' class='0x020000' link_speed='32.0 GT/s PCIe' link_width='16'><nic><net name='n' dev='0' "
      "speed='400000'/></nic></pci></cpu></system>",
      "grace");
  REQUIRE(graph.status().message() == "");
  const Paths paths(*graph);
  const int gpu = named(*graph, "GPU 0"), net = named(*graph, "n"), numa = named(*graph, "NUMA 0");
  CHECK(paths.between(gpu, numa)->type == PathClass::C2c);
  CHECK(paths.between(gpu, numa)->gbps == Approx(447.12));
  CHECK(paths.between(gpu, net)->type == PathClass::P2c);
  CHECK(paths.between(gpu, net)->gbps == Approx(48));
}

}  // namespace tutti::topology
