#include <cmath>
#include <cstdio>

#include "src/base/text.hpp"
#include "src/topology/complete.hpp"
#include "src/topology/nccl_xml.hpp"
#include "src/topology/rates.hpp"

namespace tutti::topology {
namespace {

std::string hex(uint64_t value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%0*llx", digits, static_cast<unsigned long long>(value));
  return text;
}

std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.15g", value);
  if (std::strtod(text, nullptr) != value) std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

class Writer {
 public:
  explicit Writer(const Graph& graph) : g_(graph), children_(childLists(graph)), linksOf_(graph.nodes.size()) {
    for (size_t i = 0; i < g_.links.size(); ++i) {
      linksOf_[static_cast<size_t>(g_.links[i].a)].push_back(static_cast<int>(i));
      linksOf_[static_cast<size_t>(g_.links[i].b)].push_back(static_cast<int>(i));
    }
  }

  std::string write() {
    open("system");
    attribute("version", "1");
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      if (g_.nodes[i].kind == NodeKind::Numa) cpu(static_cast<int>(i));
    }
    close("system");
    return std::move(out_);
  }

 private:
  const Node& at(int node) const { return g_.nodes[static_cast<size_t>(node)]; }

  /// The link to the parent, -1 if there is none of this kind.
  int linkUp(int node, LinkKind kind) const {
    for (const int index : linksOf_[static_cast<size_t>(node)]) {
      const Link& l = g_.links[static_cast<size_t>(index)];
      if (l.kind == kind && (l.a == at(node).parent || l.b == at(node).parent)) return index;
    }
    return -1;
  }

  void open(const char* tag) {
    if (inTag_) out_ += ">\n";
    out_ += std::string(static_cast<size_t>(depth_) * 2, ' ') + "<" + tag;
    inTag_ = true;
    ++depth_;
  }
  void attribute(std::string_view name, const std::string& value) { out_ += cat(" ", name, "=\"", toXml(value), "\""); }
  void close(const char* tag) {
    --depth_;
    out_ += inTag_ ? std::string("/>\n") : cat(std::string(static_cast<size_t>(depth_) * 2, ' '), "</", tag, ">\n");
    inTag_ = false;
  }

  void extras(const Node& n, bool ofPci) {
    for (const auto& [name, value] : n.extra) {
      if (name.starts_with("pci.") == ofPci) attribute(ofPci ? std::string_view(name).substr(4) : name, value);
    }
  }

  void cpu(int node) {
    const Node& n = at(node);
    open("cpu");
    if (const uint64_t hash = at(g_.hostOf(node)).hostHash; hash != 0) attribute("host_hash", hex(hash, 1));
    attribute("numaid", cat(n.index));
    attribute("affinity", n.cpus.mask());
    if (!n.cpu.arch.empty()) attribute("arch", n.cpu.arch);
    if (!n.cpu.vendor.empty()) attribute("vendor", n.cpu.vendor);
    if (n.cpu.family >= 0) attribute("familyid", cat(n.cpu.family));
    if (n.cpu.model >= 0) attribute("modelid", cat(n.cpu.model));
    extras(n, false);
    for (const int index : linksOf_[static_cast<size_t>(node)]) {  // devices in the order in which they were connected
      const Link& l = g_.links[static_cast<size_t>(index)];
      if (l.kind != LinkKind::Pci) continue;
      const int other = l.a == node ? l.b : l.a;
      if (!at(other).busId.empty()) {
        pci(other);
      } else if (at(other).kind == NodeKind::Nic) {  // with no place on PCI; may be listed under several processors
        nic(other);
      }
    }
    close("cpu");
  }

  void pci(int node) {
    const Node& n = at(node);
    open("pci");
    attribute("busid", n.busId);
    if (n.pci.classCode >= 0) attribute("class", hex(static_cast<uint64_t>(n.pci.classCode), 6));
    const auto id = [&](const char* name, int value) {
      if (value >= 0) attribute(name, hex(static_cast<uint64_t>(value), 4));
    };
    id("vendor", n.pci.vendor);
    id("device", n.pci.device);
    id("subsystem_vendor", n.pci.subsystemVendor);
    id("subsystem_device", n.pci.subsystemDevice);
    if (n.pci.linkGTps > 0) {
      char speed[48];
      std::snprintf(speed, sizeof speed, std::trunc(n.pci.linkGTps * 10) == n.pci.linkGTps * 10 ? "%.1f" : "%.15g",
                    n.pci.linkGTps);
      attribute("link_speed", cat(speed, " GT/s PCIe"));
    }
    if (n.pci.linkWidth > 0) attribute("link_width", cat(n.pci.linkWidth));
    const int up = linkUp(node, LinkKind::Pci);
    if (up >= 0) {
      const Link& l = g_.links[static_cast<size_t>(up)];
      if (!l.assumed && !near(l.gbps, pcieGBps(n.pci.linkGTps, n.pci.linkWidth))) attribute("gbps", exact(l.gbps));
    }
    extras(n, true);
    if (n.kind == NodeKind::Gpu) {
      gpu(node);
    } else {
      lanes(node);
    }
    if (n.kind == NodeKind::Nic) nic(node);
    for (const int child : children_[static_cast<size_t>(node)]) {
      if (!at(child).busId.empty()) {
        pci(child);
      } else if (at(child).kind == NodeKind::Nic) {
        nic(child);
      }
    }
    close("pci");
  }

  /// Its class alone tells what it is; else an element inside it has to, be it empty.
  static bool saysClass(const Node& n) { return n.pci.classCode >= 0 && kindOfPciClass(n.pci) == n.kind; }

  void gpu(int node) {
    const Node& n = at(node);
    const bool described = n.index >= 0 || n.gpu.sm > 0 || n.gpu.rank >= 0 || !n.gpu.gcn.empty() || hasLanes(node);
    bool others = false;
    for (const auto& [name, value] : n.extra) others = others || !name.starts_with("pci.");
    if (!described && !others && saysClass(n)) return;
    open("gpu");
    if (n.index >= 0) attribute("dev", cat(n.index));
    if (n.gpu.sm > 0) attribute("sm", cat(n.gpu.sm));
    if (!n.gpu.gcn.empty()) attribute("gcn", n.gpu.gcn);
    if (n.gpu.rank >= 0) attribute("rank", cat(n.gpu.rank));
    extras(n, false);
    lanes(node);
    close("gpu");
  }

  bool hasLanes(int node) const {
    for (const int index : linksOf_[static_cast<size_t>(node)]) {
      const LinkKind kind = g_.links[static_cast<size_t>(index)].kind;
      if (kind == LinkKind::NvLink || kind == LinkKind::Xgmi || kind == LinkKind::C2C) return true;
    }
    return false;
  }

  void lanes(int node) {
    for (const int index : linksOf_[static_cast<size_t>(node)]) {
      const Link& l = g_.links[static_cast<size_t>(index)];
      const int other = l.a == node ? l.b : l.a;
      if (l.kind == LinkKind::C2C && at(node).kind == NodeKind::Gpu) c2c(l);
      if (l.kind == LinkKind::PciPeer) {
        open("pcilink");
        attribute("target", at(other).busId);
        close("pcilink");
      }
      if (l.kind == LinkKind::NvLink || l.kind == LinkKind::Xgmi) lane(l, other);
    }
  }

  void lane(const Link& l, int other) {
    const char* tag = l.kind == LinkKind::Xgmi ? "xgmi" : "nvlink";
    const bool toCpu = at(other).kind == NodeKind::Numa;
    open(tag);
    attribute("target", toCpu ? "ffff:ff:ff.0" : at(other).busId);
    attribute("count", cat(l.count));
    const int code = at(other).kind == NodeKind::NvSwitch ? 0x068000 : toCpu ? 0x068001 : at(other).pci.classCode;
    if (code >= 0) attribute("tclass", hex(static_cast<uint64_t>(code), 6));
    const GpuInfo& one = at(at(l.a).kind == NodeKind::Gpu ? l.a : l.b).gpu;
    const double each = l.kind == LinkKind::Xgmi ? xgmiGBps(one.gcn) : nvlinkGBps(one.sm);
    if (!near(l.gbps, each * l.count)) attribute("gbps", exact(l.gbps));
    close(tag);
  }

  void c2c(const Link& l) {
    open("c2c");
    attribute("bw", cat(std::lround(l.gbps * 1000 / l.count)));
    attribute("count", cat(l.count));
    if (!near(static_cast<double>(std::lround(l.gbps * 1000 / l.count)) * l.count / 1000, l.gbps)) {
      attribute("gbps", exact(l.gbps));
    }
    close("c2c");
  }

  void nic(int node) {
    if (children_[static_cast<size_t>(node)].empty() && !at(node).busId.empty() && saysClass(at(node))) return;
    open("nic");
    for (const int child : children_[static_cast<size_t>(node)]) net(child);
    close("nic");
  }

  void net(int node) {
    const Node& n = at(node);
    open("net");
    attribute("name", n.name);
    if (n.index >= 0) attribute("dev", cat(n.index));
    attribute("latency", exact(n.net.latencyUs));
    if (n.net.speedMbps > 0) attribute("speed", cat(n.net.speedMbps));
    if (n.net.port >= 0) attribute("port", cat(n.net.port));
    attribute("guid", hex(n.net.guid, 1));
    if (n.net.rail >= 0) attribute("rail", cat(n.net.rail));
    if (n.net.plane >= 0) attribute("plane", cat(n.net.plane));
    const int port = linkUp(node, LinkKind::Port);
    if (port >= 0) {
      const Link& l = g_.links[static_cast<size_t>(port)];
      if (!l.assumed && !near(l.gbps, n.net.speedMbps / 8000.0)) attribute("gbps", exact(l.gbps));
    }
    extras(n, false);
    close("net");
  }

  const Graph& g_;
  std::vector<std::vector<int>> children_;
  std::vector<std::vector<int>> linksOf_;
  std::string out_;
  int depth_ = 0;
  bool inTag_ = false;
};

}  // namespace

std::string writeNcclXml(const Graph& graph) { return Writer(graph).write(); }

}  // namespace tutti::topology
