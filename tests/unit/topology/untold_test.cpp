// What figures rest on that a description does not tell is said beside them; what is told is not doubted.
#include "src/topology/untold.hpp"

#include <catch2/catch.hpp>

#include "src/topology/load.hpp"
#include "src/topology/merge.hpp"
#include "src/topology/paths.hpp"
#include "src/topology/rates.hpp"
#include "tools/topology/search/channel_plan.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

Graph described(const std::string& text) {
  const auto graph = parseTopology(text, "f.xml");
  REQUIRE(graph.status().message() == "");
  return *graph;
}

std::string phrasesOf(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += cat(text.empty() ? "" : "; ", sentence);
  return text;
}

/// Two GPUs on a switch each, told but for what `gpu` and `link` leave open.
std::string twoGpus(const std::string& gpu, const std::string& links) {
  const std::string pcie = " link_speed='32.0 GT/s PCIe' link_width='16'";
  const auto one = [&](const char* busId, const char* peer) {
    std::string inside = links;
    if (const size_t mark = inside.find('@'); mark != std::string::npos) inside.replace(mark, 1, peer);
    return cat("<pci busid='", busId, "' class='0x030200'", pcie, " vendor='0x10de'><gpu ", gpu, ">", inside,
               "</gpu></pci>");
  };
  return cat("<system version='1'><cpu numaid='0' arch='x86_64'>", one("1:0.0", "2:0.0"), one("2:0.0", "1:0.0"),
             "</cpu></system>");
}

std::string ringsOf(const Graph& graph) { return toText(graph, planChannels(graph, {}).value()); }

constexpr const char* kRests = " with what is told and assumed";

}  // namespace

#if TUTTI_HAVE_PUGIXML
TEST_CASE("links between GPUs that a file does not name are said to be untold where GPUs of the kind have them") {
  struct Row {
    const char *gpu, *links, *phrase;
  };
  const std::string only = ": only PCIe and sockets are counted between them";
  const auto row = GENERATE(values<Row>({
      {"dev='0'", "", "NVLinks and compute capability of 2 GPUs (GPU 0, ...)"},
      {"dev='0' sm='70'", "", "NVLinks of 2 GPUs (GPU 0, ...), whose generation (sm 70) has them"},
      {"dev='0' sm='80' rank='0'", "", "NVLinks of 2 GPUs (GPU 0, ...), whose generation (sm 80) has them"},
      {"dev='0' sm='103'", "", "NVLinks of 2 GPUs (GPU 0, ...), whose generation (sm 103) has them"},
      {"dev='0' sm='89'", "", ""},   // no NVLinks: Ada
      {"dev='0' sm='120'", "", ""},  // nor on these
      {"dev='0' gcn='gfx942'", "", "xGMI links of 2 GPUs (GPU 0, ...), whose generation (gfx942) has them"},
      {"dev='0' gcn='gfx1100'", "", ""},
      {"dev='0' sm='80'", "<nvlink target='@' count='4' tclass='0x030200'/>", ""},
      {"dev='0' sm='90'", "<nvlink target='9:0.0' count='18' tclass='0x068000'/>", ""},
      {"dev='0' gcn='gfx942'", "<xgmi target='@' count='1' tclass='0x038000'/>", ""},
  }));
  CAPTURE(row.gpu, row.links);
  const Graph graph = described(twoGpus(row.gpu, row.links));
  const std::string phrase = *row.phrase == '\0' ? "" : row.phrase + only;
  CHECK(phrasesOf(untold(graph)) == phrase);
  const std::string rings = ringsOf(graph);
  CHECK((rings.find(kRests) != std::string::npos) == !phrase.empty());
  CHECK((rings.find("not told\n  " + phrase) != std::string::npos) == !phrase.empty());
  CHECK((toText(graph).find("not told\n  " + phrase) != std::string::npos) == !phrase.empty());
  CHECK((pathTable(graph, Paths(graph)).find("* not told\n") != std::string::npos) == !phrase.empty());
}

TEST_CASE("bandwidths that a file leaves open are said to be assumed, of the part that a figure rests on") {
  // GPU 1's link, the adapter's port and the way between the NUMA nodes are open; GPU 0 and 2 share what is told.
  const std::string pcie = " link_speed='16.0 GT/s PCIe' link_width='16'", gpu = "<gpu sm='89' dev='";
  const Graph graph = described(cat(
      "<system version='1'><cpu numaid='0' arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='143'>",
      "<pci busid='1:0.0' class='0x030200'", pcie, ">", gpu, "0'/></pci><pci busid='3:0.0' class='0x030200'", pcie, ">",
      gpu, "2'/></pci><pci busid='4:0.0' class='0x0200'", pcie, "><nic><net name='a' dev='0'/></nic></pci></cpu>",
      "<cpu numaid='1' arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='143'><pci busid='2:0.0' ",
      "class='0x030200'>", gpu, "1'/></pci><pci busid='5:0.0' class='0x0200'", pcie, "/></cpu></system>"));
  const std::string link = "PCIe speed of 1 link (NUMA 1 - GPU 1): 12 GB/s is assumed",
                    socket = "bandwidth between NUMA nodes: 22 GB/s is assumed, by the processors' model",
                    port = "speed of 1 port (a): 1.2 GB/s is assumed",
                    adapter = "speed of 1 adapter (NIC 1): what PCIe carries to each is taken for it";
  CHECK(untold(graph) == std::vector<std::string>{link, port, adapter, socket});
  const std::string all = ringsOf(graph);
  for (const std::string& phrase : {link, socket}) CHECK(all.find(phrase) != std::string::npos);
  for (const std::string& phrase : {port, adapter}) CHECK(all.find(phrase) == std::string::npos);  // one host: no ports
  CHECK(all.find("GB/s (assumed)") != std::string::npos);
  const auto gpus = graph.all(NodeKind::Gpu);
  const std::string near = toText(graph, planChannels(graph, {.devices = {gpus[0], gpus[1]}}).value());
  CHECK(near.find("the most that is possible\n") != std::string::npos);
  CHECK(near.find("not told") == std::string::npos);
  const std::string table = pathTable(graph, Paths(graph));
  CHECK(table.find("24*") == std::string::npos);
  CHECK(table.find("12*") != std::string::npos);
  CHECK(toSvg(graph).find("not told: PCIe speed of 1 link") != std::string::npos);
}

TEST_CASE("unknown devices and processors, and groups of NVSwitches, are things untold") {
  CHECK(phrasesOf(untold(described("<system><cpu numaid='0'><pci busid='1:0.0'/></cpu><cpu numaid='1'/></system>"))) ==
        "what 1 device (device 0000:01:00.0) is: it is counted neither as GPU nor as adapter; "
        "PCIe speed of 1 link (NUMA 0 - device 0000:01:00.0): 12 GB/s is assumed; "
        "processors, and bandwidth between NUMA nodes: 6 GB/s is assumed");
  const auto gpu = [](int number, const char* target) {
    return cat("<pci busid='", number, ":0.0' link_speed='8 GT/s' link_width='16'><gpu sm='70'><nvlink target='",
               target, "' count='6' tclass='0x068000'/></gpu></pci>");
  };
  const std::string head = "<system><cpu numaid='0' arch='x86_64'>", tail = "</cpu></system>";
  CHECK(untold(described(head + gpu(1, "a:0.0") + gpu(2, "a:0.0") + gpu(3, "a:0.0") + tail)).empty());
  CHECK(phrasesOf(untold(described(head + gpu(1, "a:0.0") + gpu(2, "b:0.0") + tail))) ==
        "links between NVSwitches, of which 2 groups have GPUs of their own: none is counted");
}
#endif

TEST_CASE("of a machine in one line everything is told") {
  for (const char* line :
       {"gpu:8 pcie:16x16 socket:5", "gpu:8 nvlink:18x20.6 nic:8x50", "package:2", "node:2 gpu:2 nic:2x5"}) {
    CAPTURE(line);
    const Graph graph = described(line);
    CHECK(untold(graph).empty());
    CHECK(ringsOf(graph).find("told") == std::string::npos);
    const auto merged = merge({graph});
    REQUIRE(merged.ok());
    CHECK(untold(*merged).empty());
  }
}

TEST_CASE("GPUs come with links between them in the generations that are known to") {
  for (const int sm : {60, 70, 75, 80, 86, 90, 100, 103}) CHECK(mayHaveNvlinks(sm));
  for (const int sm : {35, 52, 61, 72, 87, 89, 110, 120, 121}) CHECK_FALSE(mayHaveNvlinks(sm));
  for (const char* gcn : {"gfx906", "908", "910", "gfx90a", "gfx942", "950"}) CHECK(mayHaveXgmi(gcn));
  for (const char* gcn : {"", "gfx", "gfx900", "gfx1030", "21943"}) CHECK_FALSE(mayHaveXgmi(gcn));
}

}  // namespace tutti::topology
