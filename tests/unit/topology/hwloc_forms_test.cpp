// hwloc's XML in its forms: 2.0 as the installed hwloc reads it, 3.0 as it is after its way through hwloc_form.hpp.
#include "src/topology/hwloc_form.hpp"

#include <catch2/catch.hpp>

#include "src/topology/load.hpp"
#include "src/topology/untold.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

/// A machine of one package in either form: two GPUs of NVML, joined by NVLinks, and an adapter with an RDMA device.
std::string hwlocFile(bool form3, const std::string& io = "") {
  const std::string sets = R"(cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1")";
  const std::string pu = R"(complete_nodeset="0x1" nodeset="0x1")";
  const std::string host = R"(<info name="HostName" value="h7"/><info name="Architecture" value="x86_64"/>)";
  const auto osdev = [&](const char* name, int form2, int bits, int id) {
    return cat("<object type=\"OSDev\" gp_index=\"", id, "\" name=\"", name, "\" osdev_type=\"", form3 ? bits : form2,
               "\"/>");
  };
  const auto pci = [](int bus, const char* type, int id, const std::string& inside) {
    return cat("<object type=\"PCIDev\" gp_index=\"", id, "\" pci_busid=\"0000:0", bus, ":00.0\" pci_type=\"", type,
               " [0000:0000] 00 00\" pci_link_speed=\"15.753846\">", inside, "</object>");
  };
  std::string text = cat(R"(<?xml version="1.0" encoding="UTF-8"?>)", "\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n",
                         "<topology version=\"", form3 ? "3.0" : "2.0", "\">\n<object type=\"Machine\" os_index=\"0\" ",
                         sets, " allowed_cpuset=\"0x3\" allowed_nodeset=\"0x1\" gp_index=\"1\">", form3 ? "" : host);
  text +=
      cat("<object type=\"Package\" os_index=\"0\" ", sets, " gp_index=\"2\"><object type=\"NUMANode\" os_index=\"0\" ",
          sets, " gp_index=\"3\" local_memory=\"1073741824\"", form3 ? " memory_tier=\"0\"" : "", "/>");
  for (int core = 0; core < 2; ++core) {
    const std::string cpu = cat("cpuset=\"0x", core + 1, "\" complete_cpuset=\"0x", core + 1, "\" ", pu);
    text += cat("<object type=\"Core\" os_index=\"", core, "\" ", cpu, " gp_index=\"", 10 + core, "\"",
                form3 ? " cpukind=\"0\"" : "", "><object type=\"PU\" os_index=\"", core, "\" ", cpu, " gp_index=\"",
                20 + core, "\"/></object>");
  }
  text += cat(
      "</object><object type=\"Bridge\" gp_index=\"30\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-09]\">",
      pci(1, "0302 [10de:20b0]", 31, osdev("nvml0", 1, 4 + 8, 32)),
      pci(2, "0302 [10de:20b0]", 33, osdev("nvml1", 1, 4, 34)),
      pci(3, "0207 [15b3:1017]", 35, osdev("ib0", 2, 16, 36) + osdev("mlx5_0", 3, 16 + 32, 37)),
      pci(4, "0108 [144d:a808]", 38, osdev("nvme0n1", 0, 1, 39)), io, "</object></object>\n");
  text += R"(<distances2 type="OSDev" nbobjs="2" kind="9" name="NVLinkBandwidth" indexing="gp">)"
          R"(<indexes length="6">32 34 </indexes>)"
          R"(<u64values length="30">1000000 100000 100000 1000000 </u64values></distances2>)";
  if (form3) {
    text += cat(R"(<distances2 type="OSDev" nbobjs="2" kind="261" name="XGMIHops" indexing="gp">)",
                R"(<indexes length="6">32 34 </indexes><u64values length="8">0 1 1 0 </u64values></distances2>)",
                "<memtier nr=\"0\"/><support name=\"discovery.pu\"/>", host,
                R"(<pci_locality domain="0x0" bus_min="0x0" bus_max="0x9" cpuset="0x3"/>)",
                R"(<cpukind cpuset="0x3"><info name="CoreType" value="x"/></cpukind>)");
  }
  return text + "</topology>\n";
}

}  // namespace

TEST_CASE("the form of a file is what its first tag says") {
  const auto form = [](const char* text) { return hwlocFormOf(text).text(); };
  CHECK(form("<topology version=\"3.0\">") == "3.0");
  CHECK(form("<?xml version=\"1.0\"?>\n<topology version='2.1'><x version=\"9.9\"/>") == "2.1");
  CHECK(form("<topology>\n<object version=\"7.0\"/>") == "1.0");
  CHECK(form("<topology version=\"new\">") == "1.0");
  CHECK(form("") == "1.0");
}

#if TUTTI_HAVE_HWLOC && TUTTI_HAVE_PUGIXML
TEST_CASE("a file of form 3.0 gives the same graph as one of form 2.0") {
  const auto two = parseTopology(hwlocFile(false), "f.xml"), three = parseTopology(hwlocFile(true), "f.xml");
  REQUIRE(two.status().message() == "");
  REQUIRE(three.status().message() == "");
  CHECK(toText(*three) == toText(*two));
  CHECK((*three == *two));
  const Graph& g = *three;
  CHECK(g.nodes.front().name == "h7");
  CHECK(g.nodes[static_cast<size_t>(g.all(NodeKind::Numa).front())].cpu.arch == "x86_64");
  const std::vector<int> gpus = g.all(NodeKind::Gpu), nics = g.all(NodeKind::Nic), nets = g.all(NodeKind::Net);
  REQUIRE((gpus.size() == 2 && nics.size() == 1 && nets.size() == 1));
  CHECK(g.nodes[static_cast<size_t>(gpus[1])].index == 1);
  CHECK(g.nodes[static_cast<size_t>(nets[0])].name == "mlx5_0");  // an RDMA device counts, not its interface
  CHECK(g.nodes[static_cast<size_t>(g.all(NodeKind::PciDevice).at(0))].name == "nvme0n1");
}

TEST_CASE("a file of a form yet to come is refused with both versions") {
  const auto graph = parseTopology("<topology version=\"4.1\"><object type=\"Machine\"/></topology>", "f.xml");
  CHECK(graph.status().code() == tuttiInvalidArgument);
  const std::string why = graph.status().message();
  CAPTURE(why);
  CHECK(why.starts_with("f.xml: its form, 4.1, is of a newer hwloc than the installed one, of interface 2."));
  CHECK(why.find("lstopo --of xml --export-xml-flags 2") != std::string::npos);
}

TEST_CASE("NVLinks that hwloc's file tells are links, and not said to be untold") {
  const auto graph = parseTopology(hwlocFile(false), "f.xml");
  REQUIRE(graph.status().message() == "");
  const std::vector<int> gpus = graph->all(NodeKind::Gpu);
  const int link = graph->linkBetween(gpus[0], gpus[1], LinkKind::NvLink);
  REQUIRE(link >= 0);
  CHECK(graph->links[static_cast<size_t>(link)].count == 4);  // 100 GB/s of 25 each
  CHECK(graph->links[static_cast<size_t>(link)].gbps == 80);
  CHECK_FALSE(graph->links[static_cast<size_t>(link)].assumed);
  for (const std::string& phrase : untold(*graph)) CHECK(phrase.find("NVLink") == std::string::npos);
  std::string without = hwlocFile(false);
  const size_t begin = without.find("<distances2");
  without.erase(begin, without.find("</topology>") - begin);
  const auto silent = parseTopology(without, "f.xml");
  REQUIRE(silent.status().message() == "");
  CHECK(untold(*silent).at(0) ==
        "NVLinks and compute capability of 2 GPUs (GPU 0, ...): only PCIe and sockets are counted between them");
}

TEST_CASE("a bus id that hwloc's file has twice is left out the second time, and the device is read") {
  const std::string again =
      "<object type=\"PCIDev\" gp_index=\"41\" pci_busid=\"0000:04:00.0\" pci_type=\"0207 [15b3:1013] [0000:0000] 00 "
      "00\" "
      "pci_link_speed=\"0.0\"><object type=\"OSDev\" gp_index=\"42\" name=\"mlx5_1\" osdev_type=\"3\"/></object>";
  const auto graph = parseTopology(hwlocFile(false, again), "f.xml");
  REQUIRE(graph.status().message() == "");
  CHECK(graph->leftOut == std::vector<std::string>{"<object> 0000:04:00.0 has the bus id of an earlier one: the id is "
                                                   "left out, the device is read"});
  CHECK(graph->all(NodeKind::Nic).size() == 2);
  CHECK(graph->byBusId("0000:04:00.0#2", 0) >= 0);
}

TEST_CASE("memory of a part of what other memory holds stands beside that") {
  const auto graph = parseTopology("hwloc package:1 [numa] group:2 [numa] core:2 pu:1", "text");
  REQUIRE(graph.status().message() == "");
  CHECK(graph->check() == "");
  const std::vector<int> numas = graph->all(NodeKind::Numa);
  REQUIRE(numas.size() == 3);
  for (const int numa : numas) CHECK(graph->enclosing(numa, NodeKind::Package) >= 0);
  CHECK(graph->children(numas[1], NodeKind::Core).size() + graph->children(numas[2], NodeKind::Core).size() +
            graph->children(numas[0], NodeKind::Core).size() ==
        4);
}
#endif

}  // namespace tutti::topology
