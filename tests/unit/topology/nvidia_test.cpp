// NVML and the CUDA driver as a library of the tests plays them (support/fake_nvidia.cpp).
#include "src/topology/nvidia.hpp"

#include <catch2/catch.hpp>

#include "src/topology/compact.hpp"
#include "src/topology/complete.hpp"
#include "src/topology/one_line.hpp"
#include "src/topology/paths.hpp"
#include "tests/support/variable.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

constexpr const char* kFake = TUTTI_FAKE_NVIDIA;

/// GPUs on PCI as /sys shows them: no links, no capabilities.
Graph onPci(int gpus) {
  Graph g = *parseOneLine(cat("gpu:", gpus));
  for (Node& n : g.nodes) n.gpu.sm = 0;
  return g;
}

std::string busOf(const Graph& g, int gpu) {
  return g.nodes[static_cast<size_t>(g.all(NodeKind::Gpu)[static_cast<size_t>(gpu)])].busId;
}

/// All GPUs of the graph in NVML's words.
std::string gpusByNvml(const Graph& g, int sm, const char* mig = "-1 0") {
  std::string text;
  for (size_t i = 0; i < g.all(NodeKind::Gpu).size(); ++i) {
    text += cat("gpu ", busOf(g, static_cast<int>(i)), " ", sm, " ", mig, ";");
  }
  return text;
}

Graph askNvml(Graph g, const std::string& machine) {
  const test::Variable variable("FAKE_NVIDIA", machine);
  addByNvml(g, kFake);
  CHECK(complete(g).message() == "");
  return g;
}

bool hasNote(const Graph& g, const std::string& part) {
  for (const std::string& note : g.notes) {
    if (note.find(part) != std::string::npos) return true;
  }
  return false;
}

int lanesBetween(const Graph& g, int a, int b) {
  const int link = g.linkBetween(a, b, LinkKind::NvLink);
  return link < 0 ? 0 : g.links[static_cast<size_t>(link)].count;
}

/// 8 GPUs with 18 links each, spread over 4 switches.
std::string hopper(const Graph& g) {
  std::string text = gpusByNvml(g, 90);
  for (int gpu = 0; gpu < 8; ++gpu) {
    for (int link = 0; link < 18; ++link) text += cat("link ", gpu, " ", link, " 2 00f", link % 4, ":00:00.0 4;");
  }
  return text;
}

/// 4 GPUs in pairs, four links in each.
std::string pairs(const Graph& g) {
  std::string text = gpusByNvml(g, 80);
  for (int gpu = 0; gpu < 4; ++gpu) {
    for (int link = 0; link < 4; ++link) text += cat("link ", gpu, " ", link, " 0 ", busOf(g, gpu ^ 1), " 3;");
  }
  return text;
}

}  // namespace

TEST_CASE("eight GPUs at four NVSwitches that PCI does not show") {
  const Graph pci = onPci(8);
  const Graph g = askNvml(pci, hopper(pci));
  CAPTURE(toText(g));
  REQUIRE(g.all(NodeKind::NvSwitch).size() == 4);
  const std::vector<int> all = g.all(NodeKind::Gpu);
  CHECK(lanesBetween(g, all[0], g.all(NodeKind::NvSwitch)[0]) == 5);
  CHECK(lanesBetween(g, all[7], g.all(NodeKind::NvSwitch)[3]) == 4);
  const Node& gpu = g.nodes[static_cast<size_t>(all[3])];
  CHECK(gpu.gpu.sm == 90);
  CHECK(gpu.gpu.nvlinkGeneration == 4);
  CHECK(gpu.gpu.uuid == "GPU-uuid-of-" + gpu.busId);
  CHECK(gpu.gpu.migParts == -1);
  const auto path = Paths(g).between(all[0], all[7]);
  CHECK(path->type == PathClass::Nvl);
  CHECK(path->gbps == Approx(18 * 20.6));
  CHECK(toText(g).find("NVLink 4") != std::string::npos);
  CHECK(g.notes.empty());
  CHECK(*parseCompact(toCompact(g)) == g);
}

TEST_CASE("GPUs in pairs, and a pair of which one is hidden") {
  const Graph pci = onPci(4);
  const Graph g = askNvml(pci, pairs(pci));
  const std::vector<int> all = g.all(NodeKind::Gpu);
  CHECK(lanesBetween(g, all[0], all[1]) == 4);
  CHECK(lanesBetween(g, all[2], all[3]) == 4);
  CHECK(lanesBetween(g, all[1], all[2]) == 0);
  CHECK(g.links[static_cast<size_t>(g.linkBetween(all[0], all[1], LinkKind::NvLink))].gbps == Approx(4 * 20));
  CHECK(Paths(g).between(all[0], all[2])->type != PathClass::Nvl);
  CHECK(g.notes.empty());

  std::string hidden = cat("gpu ", busOf(pci, 0), " 0 -1 0;");  // an old driver, too, that tells no capability
  for (int link = 0; link < 4; ++link) hidden += cat("link 0 ", link, " 0 0000:99:00.0 3;");
  const Graph part = askNvml(pci, hidden);
  CHECK(part.links.size() == pci.links.size());
  CHECK(hasNote(part, "NVLinks to 0000:99:00.0, which is not to be seen here"));
  CHECK(hasNote(part, busOf(pci, 3) + ": a GPU that NVML does not show"));
}

TEST_CASE("a GPU that MIG cuts into parts has no NVLinks") {
  const Graph pci = onPci(4);
  std::string text = pairs(pci);
  text.replace(text.find("80 -1 0"), 7, "80 1 3");
  text.replace(text.find("80 -1 0"), 7, "80 0 0");
  const Graph g = askNvml(pci, text);
  const std::vector<int> all = g.all(NodeKind::Gpu);
  CHECK(g.nodes[static_cast<size_t>(all[0])].gpu.migParts == 3);
  CHECK(g.nodes[static_cast<size_t>(all[1])].gpu.migParts == -1);
  CHECK(lanesBetween(g, all[0], all[1]) == 0);
  CHECK(lanesBetween(g, all[2], all[3]) == 4);
  CHECK(hasNote(g, "MIG is on"));
  CHECK(toText(g).find("MIG: 3 parts") != std::string::npos);
}

TEST_CASE("GPUs that only NVML shows are there, at a guess") {
  const Graph g = askNvml(*parseOneLine("package:2"),
                          "gpu 0000:17:00.0 90 -1 0;gpu 0000:2a:00.0 90 -1 0;"
                          "link 0 0 0 0000:2a:00.0 4;link 1 0 0 0000:17:00.0 4");
  const std::vector<int> all = g.all(NodeKind::Gpu);
  REQUIRE(all.size() == 2);
  CHECK(lanesBetween(g, all[0], all[1]) == 1);
  CHECK(hasNote(g, "0000:17:00.0: a GPU that the system does not show on PCI"));
}

TEST_CASE("ends that disagree, and a capability that is not told") {
  const Graph pci = onPci(2);
  const Graph g = askNvml(pci, cat(gpusByNvml(pci, 0), "link 0 0 0 ", busOf(pci, 1), " 4;link 0 5 0 ", busOf(pci, 1),
                                   " 4;link 1 0 0 ", busOf(pci, 0), " 4"));
  const std::vector<int> all = g.all(NodeKind::Gpu);
  CHECK(lanesBetween(g, all[0], all[1]) == 2);
  CHECK(g.links[static_cast<size_t>(g.linkBetween(all[0], all[1], LinkKind::NvLink))].gbps == Approx(2 * 20.6));
  CHECK(hasNote(g, "the ends disagree"));
}

TEST_CASE("of a machine that a file gave, NVML is asked for what the file leaves open, and for nothing else") {
  // Four GPUs that NVML joins in pairs; the file says the links of the last.
  Graph g = onPci(4);
  const std::string said = cat(pairs(g), "gpu 0000:77:00.0 80 -1 0");  // and one that the file does not have
  const std::vector<int> all = g.all(NodeKind::Gpu);
  for (const int gpu : {all[0], all[1], all[2]}) g.nodes[static_cast<size_t>(gpu)].gpu.linksTold = false;
  g.connect({all[0], all[3], LinkKind::NvLink, 7, 7, false});
  {
    const test::Variable variable("FAKE_NVIDIA", said);
    completeByNvml(g, kFake);
  }
  REQUIRE(complete(g).message() == "");
  CHECK(lanesBetween(g, all[0], all[1]) == 4);
  CHECK(lanesBetween(g, all[2], all[3]) == 4);  // told by GPU 2
  CHECK(lanesBetween(g, all[0], all[3]) == 7);
  CHECK(g.all(NodeKind::Gpu).size() == 4);
  CHECK(g.nodes[static_cast<size_t>(all[0])].gpu.sm == 80);
  CHECK(g.nodes[static_cast<size_t>(all[3])].gpu.sm == 0);
  for (const int gpu : all) CHECK(g.nodes[static_cast<size_t>(gpu)].gpu.linksTold);
}

TEST_CASE("whatever call fails, the machine stays whole and says so") {
  const char* const function =
      GENERATE("nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetPciInfo_v3",
               "nvmlDeviceGetUUID", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMigMode",
               "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetNvLinkState",
               "nvmlDeviceGetNvLinkRemoteDeviceType", "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  CAPTURE(function);
  const Graph pci = onPci(4);
  std::string text = pairs(pci);
  text.replace(text.find("80 -1 0"), 7, "80 1 3");
  const Graph g = askNvml(pci, cat(text, "fail ", function, " 15"));
  CHECK(g.all(NodeKind::Gpu).size() == 4);
  CHECK(hasNote(g, "GPU is lost"));
  const bool started = std::string(function) != "nvmlInit_v2";
  CHECK(hasNote(g, started ? function : "does not start"));
}

TEST_CASE("a machine with NVIDIA GPUs and without NVML says what it does not know") {
  Graph g = onPci(2);
  addByNvml(g, "libtutti-no-such-library.so.1");
  CHECK(hasNote(g, "NVLinks and MIG are not known: libtutti-no-such-library.so.1 cannot be loaded"));
  addByNvml(g, "libc.so.6");
  CHECK(hasNote(g, "libc.so.6 has no nvmlInit_v2"));
  addByCuda(g, "libc.so.6");
  CHECK(hasNote(g, "libc.so.6 has no cuInit"));
}

TEST_CASE("CUDA's devices are found by their place, in CUDA's order") {
  Graph g = onPci(3);
  for (Node& n : g.nodes) n.index = n.kind == NodeKind::Gpu ? -1 : n.index;
  const std::string machine = cat(gpusByNvml(g, 90), "cuda 2;cuda 0;gpu 0000:77:00.0 90 -1 0;cuda 3");
  {
    const test::Variable variable("FAKE_NVIDIA", machine);
    addByCuda(g, kFake);
  }
  const std::vector<int> all = g.all(NodeKind::Gpu);
  const auto gpu = [&](int i) { return g.nodes[static_cast<size_t>(all[static_cast<size_t>(i)])]; };
  CHECK(gpu(2).index == 0);
  CHECK(gpu(0).index == 1);
  CHECK(gpu(1).index == -1);
  CHECK(gpu(0).gpu.multiprocessors == 132);
  CHECK(gpu(0).memoryBytes == size_t{80} << 30);
  CHECK(hasNote(g, "CUDA device 2 (0000:77:00.0) is not among the GPUs"));
  Graph none = onPci(1);
  {
    const test::Variable variable("FAKE_NVIDIA", gpusByNvml(none, 90));
    addByCuda(none, kFake);
  }
  CHECK(hasNote(none, "shows this process no device"));
}

}  // namespace tutti::topology
