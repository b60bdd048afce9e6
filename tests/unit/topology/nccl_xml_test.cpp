#include "src/topology/nccl_xml.hpp"

#include <catch2/catch.hpp>

#include "src/topology/load.hpp"
#include "tools/topology/write.hpp"

#if TUTTI_HAVE_PUGIXML
namespace tutti::topology {
namespace {

const Node& at(const Graph& g, int node) { return g.nodes[static_cast<size_t>(node)]; }

/// Every tag and attribute that the form knows.
constexpr const char* kEverything = R"(<?xml version="1.0"?>
<!-- a comment -->
<system version="1">
  <cpu host_hash="0xabc" numaid="0" affinity="0000000f" arch="arm64" vendor="  Shanghai  " familyid="7" modelid="59">
    <pci busid="0000:01:00.0" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000"
         subsystem_device="0x100b" link_speed="32.0 GT/s PCIe" link_width="16">
      <pcilink target="0000:09:00.0"/>
      <pci busid="0000:02:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="3" gdr="1" mlopart="0">
          <nvlink target="0000:0a:00.0" count="6" tclass="0x030200"/>
          <nvlink target="0000:0c:00.0" count="18" tclass="0x068000"/>
          <nvlink target="0000:0d:00.0" count="2" tclass="0x068001"/>
          <c2c bw="44712" count="10"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="8">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" latency="1.5" guid="0x1234" maxconn="131072" gdr="1"
               coll="1" net="1" gin="1" rma="0" rail="2" plane="1" keep="1"/>
          <net name="mlx5_1" dev="1" speed="-1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:09:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:0a:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="4">
          <nvlink target="0000:02:00.0" count="6" tclass="0x030200"/>
        </gpu>
      </pci>
    </pci>
    <nic><net name="eth &amp; 0" dev="2" speed="10000"/></nic>
  </cpu>
  <cpu host_hash="0xabc" numaid="1" affinity="000000f0" arch="arm64">
    <nic><net name="eth &amp; 0" dev="2" speed="10000"/></nic>
  </cpu>
  <cpu host_hash="0xdef" numaid="0" affinity="0000000f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"/>
</system>
)";

std::string errorOf(const std::string& text) {
  const auto graph = parseTopology(text, "f.xml");
  return graph.ok() ? "none" : graph.status().message();
}

}  // namespace

TEST_CASE("all tags and attributes of NCCL's form are understood") {
  const auto graph = parseTopology(kEverything, "f.xml");
  REQUIRE(graph.status().message() == "");
  const Graph& g = *graph;
  CHECK(g.notes.empty());
  CHECK(g.leftOut.empty());
  REQUIRE(g.all(NodeKind::Host).size() == 2);
  CHECK(at(g, 0).hostHash == 0xabc);
  const int gpu = g.byBusId("0000:02:00.0", 0), other = g.byBusId("0a:00.0", 0);
  REQUIRE((gpu >= 0 && other >= 0));
  CHECK(at(g, gpu).gpu.rank == 3);
  CHECK(at(g, gpu).index == 0);
  const auto link = [&](int a, int b, LinkKind kind) {
    return g.links.at(static_cast<size_t>(g.linkBetween(a, b, kind)));
  };
  CHECK(link(gpu, other, LinkKind::NvLink).count == 6);
  CHECK(link(gpu, other, LinkKind::NvLink).gbps == Approx(6 * 20.6));
  const int nvSwitch = g.byBusId("0c:00.0", 0);
  REQUIRE(at(g, nvSwitch).kind == NodeKind::NvSwitch);
  CHECK(link(gpu, nvSwitch, LinkKind::NvLink).gbps == Approx(18 * 20.6));
  const int numa = g.enclosing(gpu, NodeKind::Numa);
  CHECK(link(gpu, numa, LinkKind::NvLink).count == 2);  // a processor with NVLink
  CHECK(link(gpu, numa, LinkKind::C2C).gbps == Approx(447.12));
  CHECK(link(g.byBusId("01:00.0", 0), g.byBusId("09:00.0", 0), LinkKind::PciPeer).gbps == Approx(24));
  const int nic = g.byBusId("03:00.0", 0);
  CHECK(link(g.byBusId("01:00.0", 0), nic, LinkKind::Pci).gbps == Approx(12));
  const std::vector<int> ports = g.children(nic);
  REQUIRE(ports.size() == 2);
  CHECK(at(g, ports[0]).net.rail == 2);
  CHECK(at(g, ports[0]).net.plane == 1);
  CHECK(at(g, ports[0]).net.guid == 0x1234);
  CHECK(at(g, ports[0]).net.latencyUs == 1.5);
  CHECK(link(nic, ports[0], LinkKind::Port).gbps == 50);
  CHECK(link(nic, ports[1], LinkKind::Port).assumed);
  // The socket interface is listed under both processors and is one.
  REQUIRE(g.all(NodeKind::Nic, 0).size() == 2);
  const int eth = g.all(NodeKind::Nic, 0)[1];
  for (const int cpu : g.all(NodeKind::Numa, 0)) CHECK(g.linkBetween(cpu, eth, LinkKind::Pci) >= 0);

  const auto again = parseTopology(writeNcclXml(g), "again");
  REQUIRE(again.status().message() == "");
  CHECK((*again == g));
  CHECK(writeNcclXml(*again) == writeNcclXml(g));
}

// What NCCL refuses, too, where the element is used; odd_files_test.cpp has what it goes on with.
TEST_CASE("a damaged file is refused with line and tag") {
  struct Row {
    const char *text, *message;
  };
  const auto row = GENERATE(values<Row>({
      {"", "f.xml: empty"},
      {"<", "f.xml:1: not XML"},
      {"<system>\n<cpu numaid='0'>\n</system>", "f.xml:3: not XML"},
      {"<!-- nothing -->", "f.xml:1: not XML"},
      {"<cpu/>", "f.xml:1: <cpu>: a topology starts with <system>"},
      {"<system version='9'/>", "f.xml:1: <system>: version=9 is outside 1..2"},
      {"<system version='new'/>", "f.xml:1: <system>: version='new' is not a whole number"},
      {"\n<graphs version='1'/>", "f.xml:2: <graphs>: this file holds rings and trees (TUTTI_GRAPH_FILE)"},
      {"<system>\n<cpu/></system>", "f.xml:2: <cpu>: has no numaid"},
      {"<system><cpu numaid='0'>\n<pci><pci busid='1:0.0'/></pci></cpu></system>", "f.xml:2: <pci>: has no busid"},
      {"<system><cpu numaid='0'><pci busid='1:0.0'><gpu><c2c/></gpu></pci></cpu></system>", "<c2c>: has no bw"},
      {"<system><cpu numaid='0'><pci busid='1:0.0'><nic/>\n<pcilink target='1:0.1'/></pci>"
       "<pci busid='1:0.1' class='0x060400'/></cpu></system>",
       "f.xml:2: <pcilink>: joins switches"},
      {"<system><cpu numaid='0'>\n<nic><net name='a\x0e'/></nic></cpu></system>",
       "f.xml:2: <net>: an attribute has a control character"},
      {"<system><cpu numaid='0'/><!-- -->\n<cpu numaid='1' a='&#14;'/></system>",
       "f.xml:2: <cpu>: an attribute has a control character"},
  }));
  CAPTURE(row.text);
  const std::string message = errorOf(row.text);
  CAPTURE(message);
  CHECK(message.find(row.message) != std::string::npos);
}

TEST_CASE("every beginning of a good file is refused, or is whole but for white space") {
  const std::string whole = kEverything;
  const size_t end = whole.rfind('>');
  for (size_t length = 0; length <= end; ++length) {
    CAPTURE(length);
    const auto graph = parseTopology(whole.substr(0, length), "f.xml");
    REQUIRE_FALSE(graph.ok());
    REQUIRE(graph.status().message().starts_with("f.xml"));
  }
}

TEST_CASE("deep nesting is an error and no crash") {
  std::string text = "<system><cpu numaid='0'>";
  for (int i = 0; i < 100000; ++i) text += cat("<pci busid='", i, "' class='0x060400'>");
  for (int i = 0; i < 100000; ++i) text += "</pci>";
  CHECK(errorOf(text + "</cpu></system>").find("levels deep") != std::string::npos);
}

TEST_CASE("what only an empty element says of a device is written again") {
  for (const char* device :
       {"<pci busid='1:0.0'><nic/></pci>", "<pci busid='1:0.0'><gpu/></pci>",
        "<pci busid='1:0.0' class='0x030200'><nic/></pci>", "<pci busid='1:0.0' class='0x020000'><gpu/></pci>"}) {
    CAPTURE(device);
    const auto first = readNcclXml(cat("<system><cpu numaid='0'>", device, "</cpu></system>"), "first");
    REQUIRE(first.status().message() == "");
    const auto second = readNcclXml(writeNcclXml(*first), "again");
    REQUIRE(second.status().message() == "");
    CHECK((*second == *first));
  }
}

}  // namespace tutti::topology
#endif
