// Machines made of files: the test writes a /sys and /proc and looks at what is read from them.
#include "src/topology/sysfs.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "src/topology/complete.hpp"
#include "src/topology/detect.hpp"
#include "src/topology/paths.hpp"
#include "tests/support/temp_folder.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

namespace fs = std::filesystem;

class FakeRoot : public test::TempFolder {
 public:
  void file(const std::string& name, const std::string& text) const { write(name, text + "\n"); }

  void link(const std::string& name, const std::string& target) const {
    const fs::path root = path();
    fs::create_directories((root / name).parent_path());
    fs::create_symlink(root / target, root / name);
  }

  /// A PCI function at the end of `way` below /sys/devices.
  void pci(const std::string& way, const std::string& classCode, int numa, const std::string& speed = "",
           int width = 0) const {
    const std::string folder = "sys/devices/" + way, busId = fs::path(way).filename().string();
    file(folder + "/class", classCode);
    file(folder + "/vendor", classCode.starts_with("0x03") ? "0x10de" : "0x15b3");
    file(folder + "/device", "0x1234");
    file(folder + "/numa_node", std::to_string(numa));
    if (!speed.empty()) {
      file(folder + "/max_link_speed", speed);
      file(folder + "/max_link_width", std::to_string(width));
      file(folder + "/current_link_speed", "2.5 GT/s PCIe");  // idle
      file(folder + "/current_link_width", std::to_string(width));
    }
    link("sys/bus/pci/devices/" + busId, folder);
  }
};

/// Two sockets; on the second one a switch with a GPU and an adapter with two InfiniBand ports.
void makeServer(const FakeRoot& r) {
  r.file("proc/sys/kernel/hostname", "fake");
  r.file("proc/sys/kernel/random/boot_id", "0000-1111");
  r.file("proc/cpuinfo",
         "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon\n");
  for (int node = 0; node < 2; ++node) {
    r.file(cat("sys/devices/system/node/node", node, "/cpulist"), node == 0 ? "0-1,4-5" : "2-3,6-7");
    r.file(cat("sys/devices/system/node/node", node, "/meminfo"), cat("Node ", node, " MemTotal:       1048576 kB"));
  }
  for (int pu = 0; pu < 8; ++pu) {
    const std::string folder = cat("sys/devices/system/cpu/cpu", pu, "/topology/");
    r.file(folder + "physical_package_id", pu % 4 < 2 ? "0" : "1");
    r.file(folder + "core_id", cat(pu % 4));
    r.file(folder + "thread_siblings_list", cat(pu % 4, ",", pu % 4 + 4));
  }
  const std::string port = "pci0000:80/0000:80:01.0";
  r.pci(port, "0x060400", 1, "32.0 GT/s PCIe", 16);
  r.pci(port + "/0000:81:00.0", "0x060400", 1, "32.0 GT/s PCIe", 16);
  r.pci(port + "/0000:81:00.0/0000:82:00.0", "0x060400", 1, "32.0 GT/s PCIe", 16);
  r.pci(port + "/0000:81:00.0/0000:82:01.0", "0x060400", 1, "16.0 GT/s PCIe", 8);
  r.pci(port + "/0000:81:00.0/0000:82:00.0/0000:83:00.0", "0x030200", 1, "32.0 GT/s PCIe", 16);
  const std::string nic = port + "/0000:81:00.0/0000:82:01.0/0000:84:00.0";
  r.pci(nic, "0x020700", 1, "32.0 GT/s PCIe", 16);  // in a slot of half the speed and width
  const std::string rdma = "sys/devices/" + nic + "/infiniband/mlx5_0";
  r.file(rdma + "/node_guid", "0011:2233:4455:6677");
  r.file(rdma + "/ports/1/rate", "200 Gb/sec (4X HDR)");
  r.file(rdma + "/ports/1/state", "4: ACTIVE");
  r.file(rdma + "/ports/2/rate", "100 Gb/sec (4X EDR)");
  r.file(rdma + "/ports/2/state", "1: DOWN");
  r.link(rdma + "/device", "sys/devices/" + nic);
  r.link("sys/class/infiniband/mlx5_0", rdma);
  r.pci("pci0000:00/0000:00:03.0", "0x020000", 0);  // on the processor itself, as in virtual machines
  const std::string eth = "sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0";
  r.file(eth + "/speed", "25000");
  r.file(eth + "/operstate", "up");
  r.link(eth + "/device", "sys/devices/pci0000:00/0000:00:03.0/virtio0");
  r.link("sys/class/net/eth0", eth);
}

Graph read(const FakeRoot& r) {
  Graph g = sysfs::processors(r.path());
  sysfs::addPciDevices(g, r.path());
  sysfs::enrich(g, r.path());
  CHECK(complete(g).message() == "");
  return g;
}

bool noted(const Graph& g, const std::string& part) {
  for (const std::string& note : g.notes) {
    if (note.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a server is read from its files") {
  FakeRoot root;
  makeServer(root);
  const Graph g = read(root);
  CAPTURE(toText(g));
  CHECK(g.nodes[0].name == "fake");
  CHECK(g.nodes[0].hostHash != 0);
  CHECK(g.all(NodeKind::Package).size() == 2);
  REQUIRE(g.all(NodeKind::Numa).size() == 2);
  CHECK(g.all(NodeKind::Core).size() == 4);
  const Node& first = g.nodes[static_cast<size_t>(g.all(NodeKind::Numa)[0])];
  CHECK(first.cpus.list() == "0-1,4-5");
  CHECK(first.memoryBytes == size_t{1} << 30);
  CHECK(first.cpu.model == 143);
  REQUIRE(g.all(NodeKind::PciSwitch).size() == 1);
  const int gpu = g.byBusId("83:00.0", 0), nic = g.byBusId("84:00.0", 0), bridge = g.byBusId("81:00.0", 0);
  REQUIRE((gpu >= 0 && nic >= 0 && bridge >= 0));
  CHECK(g.nodes[static_cast<size_t>(gpu)].parent == bridge);
  CHECK(g.nodes[static_cast<size_t>(g.enclosing(gpu, NodeKind::Numa))].index == 1);
  const auto gbps = [&](int a, int b, LinkKind kind) {
    return g.links.at(static_cast<size_t>(g.linkBetween(a, b, kind))).gbps;
  };
  CHECK(gbps(gpu, bridge, LinkKind::Pci) == Approx(48));  // what it can do, not what it does when idle
  CHECK(gbps(nic, bridge, LinkKind::Pci) == Approx(12));  // what the slot can do
  const std::vector<int> ports = g.children(nic);
  REQUIRE(ports.size() == 2);
  CHECK(gbps(nic, ports[0], LinkKind::Port) == Approx(25));
  CHECK(gbps(nic, ports[1], LinkKind::Port) == Approx(12.5));
  CHECK(g.nodes[static_cast<size_t>(ports[0])].net.guid == 0x0011223344556677);
  CHECK(noted(g, "mlx5_0 port 2 is not active"));
  const int eth = g.byBusId("00:03.0", 0);
  REQUIRE(g.children(eth).size() == 1);
  CHECK(g.nodes[static_cast<size_t>(g.children(eth)[0])].net.speedMbps == 25000);
  CHECK(noted(g, "eth0 (0000:00:03.0): the system tells no PCIe speed") == false);  // it has no name yet then
  CHECK(noted(g, "0000:00:03.0: the system tells no PCIe speed"));
  CHECK(Paths(g).between(gpu, ports[0])->type == PathClass::Pix);
}

TEST_CASE("a container that hides everything still gives a machine") {
  FakeRoot root;
  root.file(".dockerenv", "");
  root.file("sys/class/net/eth0/operstate", "up");
  root.file("sys/class/net/eth0/speed", "-1");
  root.file("sys/class/net/lo/operstate", "unknown");
  const Graph g = read(root);
  CHECK(g.all(NodeKind::Numa).size() == 1);
  CHECK(g.all(NodeKind::Net).size() == 1);
  CHECK(noted(g, "no NUMA nodes"));
  CHECK(noted(g, "container"));
  CHECK(noted(g, "eth0: the adapter behind this interface"));
  CHECK(noted(g, "eth0: the system tells no speed"));
  CHECK(noted(g, "shows no PCI devices"));
  CHECK(noted(g, "boot id is hidden"));
}

TEST_CASE("a virtual machine is noted, and devices without locality") {
  FakeRoot root;
  makeServer(root);
  root.file("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor sse");
  root.file("sys/devices/pci0000:00/0000:00:03.0/numa_node", "-1");
  const Graph g = read(root);
  CHECK(noted(g, "virtual machine"));
  CHECK(noted(g, "0000:00:03.0: the system does not tell its NUMA node"));
}

TEST_CASE("caches are those that lie within a NUMA node") {
  FakeRoot root;
  makeServer(root);
  for (int pu = 0; pu < 8; ++pu) {  // two caches on node 0, one on node 1 that is said to reach into node 0
    const std::string folder = cat("sys/devices/system/cpu/cpu", pu, "/cache/index3/");
    root.file(folder + "level", "3");
    root.file(folder + "size", "32768K");
    root.file(folder + "shared_cpu_list", pu % 4 == 0 ? "0,4" : pu % 4 == 1 ? "1,5" : "1-3,5-7");
  }
  const Graph g = read(root);
  CAPTURE(toText(g));
  const std::vector<int> caches = g.all(NodeKind::L3);
  REQUIRE(caches.size() == 2);
  CHECK(g.nodes[static_cast<size_t>(caches[0])].cpus.list() == "0,4");
  CHECK(g.nodes[static_cast<size_t>(caches[1])].cpus.list() == "1,5");
  CHECK(g.nodes[static_cast<size_t>(caches[0])].memoryBytes == size_t{32} << 20);
  CHECK(g.children(caches[0], NodeKind::Core).size() == 1);
  CHECK(g.all(NodeKind::Core).size() == 4);
}

TEST_CASE("files with nonsense in them are as good as none") {
  FakeRoot root;
  makeServer(root);
  root.file("sys/devices/system/node/node0/cpulist", "9-1,x");
  root.file("sys/bus/pci/devices/0000:83:00.0/max_link_speed", "fast");
  root.file("sys/bus/pci/devices/0000:83:00.0/current_link_speed", "Unknown");
  root.file("sys/bus/pci/devices/0000:83:00.0/numa_node", "many");
  root.file("sys/class/infiniband/mlx5_0/ports/1/rate", "much");
  root.file("sys/class/net/eth0/speed", "99999999999999999999");
  const Graph g = read(root);
  CHECK(g.check() == "");
  CHECK(g.all(NodeKind::Gpu).size() == 1);
}

TEST_CASE("this machine is detected, whatever it is") {
  const auto graph = detect();
  REQUIRE(graph.status().message() == "");
  CHECK(graph->check() == "");
  CHECK(graph->all(NodeKind::Numa).size() >= 1);
  CHECK(graph->nodes[0].hostHash != 0);
  CHECK(detect()->nodes[0].hostHash == graph->nodes[0].hostHash);
  CHECK(toText(*graph).find("NUMA") != std::string::npos);
}

TEST_CASE("TUTTI_TOPO_FILE replaces the machine") {
  setenv("TUTTI_TOPO_FILE", "gpu:3", 1);
  const auto graph = currentTopology();
  const test::TempFolder folder;
  const std::string file = folder.path() + "/missing";
  setenv("TUTTI_TOPO_FILE", file.c_str(), 1);
  const auto missing = currentTopology();
  unsetenv("TUTTI_TOPO_FILE");
  REQUIRE(graph.ok());
  CHECK(graph->all(NodeKind::Gpu).size() == 3);
  CHECK(missing.status().message().find("cannot read the topology file " + file) == 0);
}

}  // namespace tutti::topology
