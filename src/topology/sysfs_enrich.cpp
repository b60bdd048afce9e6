#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/base/config.hpp"
#include "src/topology/rates.hpp"
#include "src/topology/sysfs.hpp"

namespace tutti::topology::sysfs {
namespace {

namespace fs = std::filesystem;

struct Speed {
  double gtps = 0;
  int width = 0;
  bool known() const { return gtps > 0 && width > 0; }
};

/// The most that the link can do: the present speed falls when a device idles.
Speed pcieSpeed(const std::string& device) {
  Speed speed;
  for (const std::string prefix : {"max", "current"}) {
    const double gtps = parseLinkSpeed(line(device + "/" + prefix + "_link_speed"));
    const int width = std::atoi(line(device + "/" + prefix + "_link_width").c_str());
    if (gtps <= 0 || width <= 0 || width > 64) continue;
    if (prefix == "max") {
      speed = {gtps, width};
    } else if (speed.known()) {
      speed.width = std::min(speed.width, width);  // lanes that the slot lacks do not come with load
    } else {
      speed = {gtps, width};
    }
  }
  return speed;
}

class Enricher {
 public:
  Enricher(Graph& graph, const std::string& root) : g_(graph), root_(root), pci_(root + "/sys/bus/pci/devices/") {}

  void run() {
    host();
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      if (!g_.nodes[i].busId.empty()) pcie(static_cast<int>(i));
    }
    for (const int nic : g_.all(NodeKind::Nic)) ports(nic);
    rdmaPorts();
    for (const int net : g_.all(NodeKind::Net)) interfaceSpeed(net);
    withoutPci();
    surroundings();
  }

 private:
  Node& at(int node) { return g_.nodes[static_cast<size_t>(node)]; }

  void host() {
    Node& n = g_.nodes.front();
    const std::string name = line(root_ + "/proc/sys/kernel/hostname"),
                      boot = line(root_ + "/proc/sys/kernel/random/boot_id");
    if (!name.empty()) n.name = name;
    if (boot.empty()) g_.note("the kernel's boot id is hidden: the host is known by its name alone");
    n.hostHash = hashText(cat(boot.empty() ? name : boot, "/", configText("TUTTI_HOSTID")));
  }

  void pcie(int node) {
    Node& n = at(node);
    const std::string device = pci_ + n.busId;
    Speed speed = pcieSpeed(device);
    std::error_code error;
    const fs::path real = fs::canonical(device, error);
    if (!error && speed.known()) {
      const Speed above = pcieSpeed(real.parent_path().string());  // the port that the device is plugged into
      if (above.known()) speed = {std::min(speed.gtps, above.gtps), std::min(speed.width, above.width)};
    }
    const bool worthANote = n.kind == NodeKind::Gpu || n.kind == NodeKind::Nic;
    if (speed.known()) {
      n.pci.linkGTps = speed.gtps;
      n.pci.linkWidth = speed.width;
      for (Link& l : g_.links) {
        if (l.kind != LinkKind::Pci || l.b != node) continue;
        l.gbps = pcieGBps(speed.gtps, speed.width);
        l.assumed = false;
      }
    } else if (worthANote && n.pci.linkGTps <= 0) {
      g_.note(cat(describe(n), ": the system tells no PCIe speed; 8 GT/s x16 is taken"));
    }
    if (worthANote && g_.all(NodeKind::Numa).size() > 1 && line(device + "/numa_node") == "-1") {
      g_.note(cat(describe(n), ": the system does not tell its NUMA node"));
    }
  }

  static std::string describe(const Node& n) { return n.name.empty() ? n.busId : cat(n.name, " (", n.busId, ")"); }

  int addPort(int nic, const std::string& name, int port) {
    Node n{.kind = NodeKind::Net, .parent = nic, .name = name};
    n.net.port = port;
    const int net = g_.add(std::move(n));
    g_.connect({nic, net, LinkKind::Port, 1, assumedNetMbps() / 8000.0, true});
    return net;
  }

  void setSpeed(int net, int mbps) {
    if (mbps <= 0) return;
    at(net).net.speedMbps = mbps;
    for (Link& l : g_.links) {
      if (l.kind != LinkKind::Port || l.b != net) continue;
      l.gbps = mbps / 8000.0;
      l.assumed = false;
    }
  }

  /// The names in /sys/class/CLASS whose device is this PCI function.
  std::vector<std::string> ofDevice(const std::string& group, const std::string& busId) const {
    std::vector<std::string> found;
    const std::string folder = cat(root_, "/sys/class/", group);
    for (const std::string& name : names(folder)) {
      std::error_code error;
      const fs::path device = fs::canonical(folder + "/" + name + "/device", error);
      if (error) continue;
      // virtio and the like put a bus of their own between.
      for (const fs::path& part : device) {
        if (part.string() == busId) found.push_back(name);
      }
    }
    return found;
  }

  void ports(int nic) {
    if (at(nic).busId.empty() || !g_.children(nic, NodeKind::Net).empty()) return;
    std::vector<std::string> found = ofDevice("infiniband", at(nic).busId);
    if (found.empty()) found = ofDevice("net", at(nic).busId);
    for (const std::string& name : found) addPort(nic, name, -1);
  }

  void rdmaPorts() {
    const std::string folder = root_ + "/sys/class/infiniband/";
    for (const int net : g_.all(NodeKind::Net)) {
      const std::string device = folder + at(net).name;
      std::vector<std::string> numbers = names(device + "/ports");
      for (size_t i = 0; i < numbers.size(); ++i) {
        const std::string port = cat(device, "/ports/", numbers[i]);
        const int node = i == 0 ? net : addPort(at(net).parent, at(net).name, 0);
        at(node).net.port = std::atoi(numbers[i].c_str());
        const double gbits = std::strtod(line(port + "/rate").c_str(), nullptr);  // "100 Gb/sec (4X EDR)"
        setSpeed(node, static_cast<int>(std::clamp(gbits, 0.0, 1e6) * 1000));
        guid(node, line(device + "/node_guid"));
        const std::string state = line(port + "/state");  // "4: ACTIVE"
        if (!state.empty() && state.find("ACTIVE") == std::string::npos) {
          g_.note(cat(at(net).name, " port ", numbers[i], " is not active (", state, ")"));
        }
      }
    }
  }

  void guid(int net, std::string text) {
    std::erase(text, ':');
    at(net).net.guid = std::strtoull(text.c_str(), nullptr, 16);
  }

  void interfaceSpeed(int net) {
    if (at(net).net.speedMbps > 0) return;
    const std::string text = line(cat(root_, "/sys/class/net/", at(net).name, "/speed"));
    setSpeed(net, std::atoi(text.c_str()));
    if (at(net).net.speedMbps <= 0) g_.note(cat(at(net).name, ": the system tells no speed; 10 Gb/s is taken"));
  }

  /// In a container the interfaces are there, the adapters behind them are not.
  void withoutPci() {
    if (!g_.all(NodeKind::Net).empty()) return;
    const std::string folder = root_ + "/sys/class/net/";
    for (const std::string& name : names(folder)) {
      const std::string state = line(folder + name + "/operstate");
      if (name == "lo" || (state != "up" && state != "unknown")) continue;
      const int numa = g_.all(NodeKind::Numa).front();
      Node n{.kind = NodeKind::Nic, .parent = numa, .name = name};
      const int nic = g_.add(std::move(n));
      g_.connect({numa, nic, LinkKind::Pci, 1, assumedPcieGBps(), true});
      interfaceSpeed(addPort(nic, name, -1));
      g_.note(cat(name, ": the adapter behind this interface is not to be seen"));
    }
  }

  void surroundings() {
    std::error_code error;
    const bool container = fs::exists(root_ + "/.dockerenv", error) || fs::exists(root_ + "/run/.containerenv", error);
    if (container) g_.note("inside a container: devices that it was not given are not seen");
    std::ifstream cpuinfo(root_ + "/proc/cpuinfo");
    for (std::string text; std::getline(cpuinfo, text) && !text.empty();) {
      if (!text.starts_with("flags") || (text + " ").find(" hypervisor ") == std::string::npos) continue;
      g_.note("a virtual machine: what it shows of PCIe and NUMA need not be the real machine's");
    }
    if (names(root_ + "/sys/bus/pci/devices").empty()) g_.note("the system shows no PCI devices");
  }

  Graph& g_;
  std::string root_, pci_;
};

}  // namespace

void enrich(Graph& graph, const std::string& root) { Enricher(graph, root).run(); }

}  // namespace tutti::topology::sysfs
