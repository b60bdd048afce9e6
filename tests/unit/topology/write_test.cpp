#include "tools/topology/write.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "src/topology/rates.hpp"
#include "tests/unit/topology/machines.hpp"
#if TUTTI_HAVE_PUGIXML
#include <pugixml.hpp>
#endif

namespace tutti::topology {
namespace {

size_t countOf(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// Everything that a picture may be of.
std::vector<std::pair<std::string, Graph>> pictures() {
  std::vector<std::pair<std::string, Graph>> all;
  for (const std::string name : kMachines) {
    if (readable(name)) all.emplace_back(name, loadTopology(goldenPath(name)).value());
  }
  for (const char* line : {"core:1", "node:20 gpu:2 nic:1x1", "gpu:8 nvlink:14x25 nvswitch:0", "nic:3x5 switch:0",
                           "package:1 numa:4 l3:2 core:20"}) {
    all.emplace_back(line, parseTopology(line, "line").value());
  }
  return all;
}

}  // namespace

TEST_CASE("pictures are XML, hold every GPU, and nothing lies outside") {
#if TUTTI_HAVE_PUGIXML
  for (const auto& [name, graph] : pictures()) {
    CAPTURE(name);
    const std::string svg = toSvg(graph);
    pugi::xml_document document;
    REQUIRE(document.load_buffer(svg.data(), svg.size()));
    const pugi::xml_node root = document.document_element();
    const double width = root.attribute("width").as_double(), height = root.attribute("height").as_double();
    int outside = 0;
    for (const pugi::xml_node box : root.children("rect")) {
      if (std::string_view(box.attribute("width").value()) == "100%") continue;
      outside += box.attribute("x").as_double() < 0 || box.attribute("y").as_double() < 0;
      outside += box.attribute("x").as_double() + box.attribute("width").as_double() > width;
      outside += box.attribute("y").as_double() + box.attribute("height").as_double() > height;
    }
    CHECK(outside == 0);
    const std::vector<int> hosts = graph.all(NodeKind::Host);
    for (size_t i = 0; i < hosts.size() && i < 8; ++i) {
      for (const int gpu : graph.all(NodeKind::Gpu, hosts[i])) {
        CHECK(svg.find(">" + graph.nodes[static_cast<size_t>(gpu)].name + "<") != std::string::npos);
      }
    }
    CHECK(svg.find("nan") == std::string::npos);
  }
#endif
}

TEST_CASE("links between GPUs are all drawn") {
  if (!TUTTI_HAVE_PUGIXML) return;
  const auto drawn = [](const char* name) { return countOf(toSvg(loadTopology(goldenPath(name)).value()), "<path"); };
  CHECK(drawn("mi300x-8gpu-8nic.nccl.xml") == 28);
  CHECK(drawn("h200-hgx-8gpu-nvswitch-tcponly.nccl.xml") == 32);
  CHECK(drawn("a100-perlmutter-4gpu-4nic.nccl.xml") == 6);
  CHECK(drawn("h100-azure-ndv5-8gpu-8nic.nccl.xml") == 0);
}

TEST_CASE("Graphviz gets every link and balanced clusters") {
  for (const auto& [name, graph] : pictures()) {
    CAPTURE(name);
    const std::string dot = toDot(graph);
    CHECK(countOf(dot, "{") == countOf(dot, "}"));
    CHECK(countOf(dot, " -- ") == graph.links.size());
  }
}

TEST_CASE("names that would break a form do not") {
  auto graph = parseTopology("gpu:1 nic:1x10", "line").value();
  graph.nodes[0].name = "<a \"b\" & \\ 'c'\n>";
  for (const int net : graph.all(NodeKind::Net)) graph.nodes[static_cast<size_t>(net)].name = "x\"y\\";
  CHECK(toSvg(graph).find("&lt;a &quot;b&quot; &amp; \\ 'c'&#10;&gt;") != std::string::npos);
  CHECK(toDot(graph).find("label=\"x\\\"y\\\\") != std::string::npos);
  CHECK(toText(graph).find("<a \"b\"") != std::string::npos);
}

TEST_CASE("figures are printed as people read them") {
  CHECK(formatGBps(48) == "48");
  CHECK(formatGBps(20.6) == "20.6");
  CHECK(formatGBps(370.8) == "371");
  CHECK(formatGBps(0.125) == "0.125");
  CHECK(formatGBps(100) == "100");
  PciInfo pci;
  CHECK(pcieName(pci) == "");
  pci.linkGTps = 32;
  pci.linkWidth = 16;
  CHECK(pcieName(pci) == "PCIe 5 x16");
}

TEST_CASE("hwloc's synthetic strings are read") {
  const auto graph = parseTopology("hwloc package:2 [numa] l3:2 core:4 pu:2", "text");
#if TUTTI_HAVE_HWLOC
  REQUIRE(graph.status().message() == "");
  CHECK(graph->all(NodeKind::Package).size() == 2);
  CHECK(graph->all(NodeKind::Numa).size() == 2);
  CHECK(graph->all(NodeKind::L3).size() == 4);
  CHECK(graph->all(NodeKind::Core).size() == 16);
  CHECK(graph->nodes[static_cast<size_t>(graph->all(NodeKind::Core)[0])].cpus.count() == 2);
  CHECK_FALSE(parseTopology("hwloc package:0", "text").ok());
  CHECK_FALSE(parseTopology("hwloc nonsense", "text").ok());
#else
  CHECK(graph.status().message().find("no hwloc") != std::string::npos);
#endif
}

TEST_CASE("damaged hwloc files are refused") {
#if TUTTI_HAVE_HWLOC && TUTTI_HAVE_PUGIXML
  setenv("HWLOC_HIDE_ERRORS", "2", 1);
  const auto why = [](const std::string& text) {
    const auto graph = parseTopology(text, "f.xml");
    return graph.ok() ? std::string("none") : graph.status().message();
  };
  CHECK(why("<topology>\n</topology>") == "f.xml:1: <topology>: there is no <object> in it");
  CHECK(why("<topology>\n<object>\n").starts_with("f.xml:2: not XML"));
  CHECK(why("<topology version=\"2.0\"><object type=\"Sofa\"/></topology>").ends_with("description of form 2.0"));
#endif
}

}  // namespace tutti::topology
