#include "src/topology/graph.hpp"

#include <catch2/catch.hpp>

#include "src/topology/complete.hpp"
#include "src/topology/rates.hpp"

namespace tutti::topology {

TEST_CASE("sets of CPUs read and print as the kernel does") {
  struct Row {
    const char *mask, *list, *canonical;
    int count;
  };
  const auto row =
      GENERATE(values<Row>({{"0000,0000000f", "0-3", "00000000,0000000f", 4},
                            {"f", "0-3", "00000000,0000000f", 4},
                            {"00000001,80000000", "31-32", "00000001,80000000", 2},
                            {"80000000,00000000,00000101", "0,8,95", "00000000,80000000,00000000,00000101", 3}}));
  CAPTURE(row.mask);
  const auto set = CpuSet::parseMask(row.mask);
  REQUIRE(set.ok());
  CHECK(set->list() == row.list);
  CHECK(set->count() == row.count);
  CHECK(set->mask() == row.canonical);
  CHECK(*CpuSet::parseList(row.list) == *set);
  CHECK(*CpuSet::parseMask(set->mask()) == *set);
  CHECK(set->contains(*set));
  CHECK(CpuSet().contains(*set) == false);
  CHECK(set->contains(CpuSet()));
}

TEST_CASE("texts that are no sets of CPUs are refused") {
  for (const char* bad : {"g", "0x1", "1,,2", "123456789", ",", "-1", " 1"}) CHECK_FALSE(CpuSet::parseMask(bad).ok());
  for (const char* bad : {"a", "3-1", "1-", "-1", "0-65536", "1,,2", "99999999999"}) {
    CHECK_FALSE(CpuSet::parseList(bad).ok());
  }
  CHECK(CpuSet::parseMask("")->empty());
  CHECK(CpuSet::parseMask("0,0")->empty());
  CHECK(CpuSet::parseList("\n")->empty());
}

TEST_CASE("bus ids have one form") {
  CHECK(canonicalBusId("81:0.0") == "0000:81:00.0");
  CHECK(canonicalBusId("0000:81:00.0") == "0000:81:00.0");
  CHECK(canonicalBusId("00000000:C1:00.0") == "0000:c1:00.0");
  CHECK(canonicalBusId("fffffff:FF:ff.0") == "fffffff:ff:ff.0");
  CHECK(canonicalBusId("") == "");
  CHECK(canonicalBusId("0000:81:00.0x") == "0000:81:00.0x");
}

TEST_CASE("PCIe links carry what measured ones do") {
  CHECK(pcieGBps(8, 16) == Approx(12));
  CHECK(pcieGBps(16, 16) == Approx(24));
  CHECK(pcieGBps(32, 16) == Approx(48));
  CHECK(pcieGBps(2.5, 4) == Approx(0.75));
  CHECK(parseLinkSpeed("16.0 GT/s PCIe") == 16);
  CHECK(parseLinkSpeed("8 GT/s") == 8);
  CHECK(parseLinkSpeed("32 GT/s PCIe/s") == 32);
  CHECK(parseLinkSpeed("Unknown") == 0);
  CHECK(parseLinkSpeed("") == 0);
  for (const char* bad : {"fast", "16", "-8 GT/s", "nan GT/s", "1e9 GT/s", "8 GB/s"}) CHECK(parseLinkSpeed(bad) < 0);
  double speed = 0;
  int width = 0;
  pcieFromRate(15.753846, &speed, &width);
  CHECK((speed == 8 && width == 16));
  pcieFromRate(0.25, &speed, &width);
  CHECK((speed == 2.5 && width == 1));
  pcieFromRate(0, &speed, &width);
  CHECK((speed == 0 && width == 0));
}

TEST_CASE("a graph that makes no sense is complained about") {
  Graph g;
  Node host;
  g.add(host);
  Node numa;
  numa.kind = NodeKind::Numa;
  numa.parent = 0;
  numa.index = 0;
  g.add(numa);
  CHECK(g.check() == "");
  Graph orphan = g;
  orphan.nodes[1].parent = 1;
  CHECK(orphan.check().find("before its parent") != std::string::npos);
  Graph idle = g;
  idle.connect({0, 1, LinkKind::Pci, 1, 0, false});
  CHECK(idle.check().find("without bandwidth") != std::string::npos);
  Graph astray = g;
  astray.connect({0, 7, LinkKind::Pci, 1, 1, false});
  CHECK(astray.check().find("a link from 0 to 7") != std::string::npos);
  Graph twins = g;
  for (int i = 0; i < 2; ++i) {
    Node gpu;
    gpu.kind = NodeKind::Gpu;
    gpu.parent = 1;
    gpu.busId = "0000:01:00.0";
    twins.add(gpu);
  }
  CHECK(twins.check() == "two nodes with bus id 0000:01:00.0");
  Graph misplaced = g;
  Node net;
  net.kind = NodeKind::Net;
  net.parent = 1;
  misplaced.add(net);
  CHECK(misplaced.check().find("a net inside a NUMA node") != std::string::npos);
}

TEST_CASE("displays that cannot compute are no GPUs") {
  const auto kind = [](int classCode, int vendor) {
    PciInfo pci;
    pci.classCode = classCode;
    pci.vendor = vendor;
    return kindOfPciClass(pci);
  };
  CHECK(kind(0x030200, 0x10de) == NodeKind::Gpu);
  CHECK(kind(0x120000, 0x1002) == NodeKind::Gpu);
  CHECK(kind(0x038000, 0x1002) == NodeKind::Gpu);
  CHECK(kind(0x030000, 0x1a03) == NodeKind::PciDevice);
  CHECK(kind(0x030000, 0x1d0f) == NodeKind::PciDevice);
  CHECK(kind(0x020700, 0x15b3) == NodeKind::Nic);
  CHECK(kind(0x068000, 0x10de) == NodeKind::NvSwitch);
  CHECK(kind(0x060400, 0x1000) == NodeKind::PciSwitch);
  CHECK(kind(-1, -1) == NodeKind::PciDevice);
}

}  // namespace tutti::topology
