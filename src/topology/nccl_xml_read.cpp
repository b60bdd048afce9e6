#include "src/topology/nccl_xml.hpp"

#if TUTTI_HAVE_PUGIXML
#include <cmath>
#include <map>
#include <set>

#include "src/base/xml_text.hpp"
#include "src/topology/complete.hpp"
#include "src/topology/rates.hpp"

namespace tutti::topology {
namespace {

constexpr int kDeepest = 64;         // levels of <pci>; PCI itself allows 256 buses
constexpr int kMostIndex = 1 << 20;  // of devices, ranks, NUMA nodes

struct Pending {  // a link whose target may come later in the file
  int from;
  LinkKind kind;
  pugi::xml_node element;
  int host;
};

class Reader {
 public:
  Result<Graph> read(std::string_view text, const std::string& origin);

 private:
  Status readCpu(pugi::xml_node e);
  Status readPci(pugi::xml_node e, int parent, int host, int depth);
  Status readPciInfo(pugi::xml_node e, PciInfo* pci);
  Status connectPci(pugi::xml_node e, int node);
  Status readGpu(pugi::xml_node e, int node, int host);
  Status readNic(pugi::xml_node e, int parent, int host);
  Status readNet(pugi::xml_node e, int nic);
  Status resolve(const Pending& pending);
  Status resolvePciPeer(const Pending& pending, int target);
  Status connectC2c(pugi::xml_node e, int gpu);
  int targetOf(const Pending& pending, const std::string& target, int64_t targetClass);
  void connectLanes();
  Status readInt(pugi::xml_node e, const char* name, int absent, int least, int most, int* value);
  void keepOthers(pugi::xml_node e, std::initializer_list<std::string_view> known, const char* prefix, Node* node);
  void ignore(pugi::xml_node e) { g_.note(cat("line ", xml_.line(e), ": <", e.name(), "> is not known here")); }
  Node& at(int node) { return g_.nodes[static_cast<size_t>(node)]; }

  XmlText xml_;
  Graph g_;
  std::map<uint64_t, int> hosts_;
  std::set<std::pair<int, int>> numas_;  // host, numaid
  std::map<std::pair<int, std::string>, int> busIds_;
  std::vector<Pending> pending_;
  struct Lanes {
    int count = 0;
    double gbps = 0;  // given by the file, for all lanes
  };
  std::map<std::pair<int, int>, std::map<LinkKind, Lanes>> lanes_;  // directed
};

Result<Graph> Reader::read(std::string_view text, const std::string& origin) {
  TUTTI_TRY(xml_.parse(text, origin));
  const pugi::xml_node root = xml_.root();
  if (std::string_view(root.name()) != "system") return xml_.error(root, "a topology starts with <system>");
  TUTTI_TRY(asStatus(xml_.integer(root, "version", 1, 1, 2)));
  for (const pugi::xml_node e : root.children()) {
    if (e.type() != pugi::node_element) continue;
    if (std::string_view(e.name()) == "cpu") {
      TUTTI_TRY(readCpu(e));
    } else {
      ignore(e);
    }
  }
  if (g_.nodes.empty()) return xml_.error(root, "there is no <cpu> in it");
  for (const Pending& pending : pending_) TUTTI_TRY(resolve(pending));
  connectLanes();
  TUTTI_TRY(complete(g_));
  return std::move(g_);
}

Status Reader::readInt(pugi::xml_node e, const char* name, int absent, int least, int most, int* value) {
  TUTTI_ASSIGN(const int64_t wide, xml_.integer(e, name, absent, least, most));
  *value = static_cast<int>(wide);
  return {};
}

void Reader::keepOthers(pugi::xml_node e, std::initializer_list<std::string_view> known, const char* prefix,
                        Node* node) {
  for (const pugi::xml_attribute a : e.attributes()) {
    bool isKnown = false;
    for (const std::string_view name : known) isKnown = isKnown || name == a.name();
    if (!isKnown) node->extra.emplace_back(cat(prefix, a.name()), a.value());
  }
}

Status Reader::readCpu(pugi::xml_node e) {
  TUTTI_ASSIGN(const uint64_t hash, xml_.hex64(e, "host_hash"));
  if (hosts_.count(hash) == 0) {
    Node host;
    host.kind = NodeKind::Host;
    host.hostHash = hash;
    hosts_[hash] = g_.add(host);
  }
  Node numa;
  numa.kind = NodeKind::Numa;
  numa.parent = hosts_[hash];
  if (!e.attribute("numaid")) return xml_.error(e, "has no numaid");
  TUTTI_TRY(readInt(e, "numaid", -1, -1, kMostIndex, &numa.index));
  TUTTI_TRY(readInt(e, "familyid", -1, -1, 1 << 20, &numa.cpu.family));
  TUTTI_TRY(readInt(e, "modelid", -1, -1, 1 << 20, &numa.cpu.model));
  numa.cpu.arch = e.attribute("arch").value();
  numa.cpu.vendor = e.attribute("vendor").value();
  auto cpus = CpuSet::parseMask(e.attribute("affinity").value());
  if (!cpus.ok()) return xml_.error(e, "affinity: ", cpus.status().message());
  numa.cpus = *cpus;
  keepOthers(e, {"numaid", "familyid", "modelid", "arch", "vendor", "affinity", "host_hash"}, "", &numa);
  if (!numas_.insert({numa.parent, numa.index}).second) return xml_.error(e, "numaid ", numa.index, " is there twice");
  const int host = numa.parent;
  const int node = g_.add(std::move(numa));
  for (const pugi::xml_node child : e.children()) {
    const std::string_view tag = child.name();
    if (tag == "pci") {
      TUTTI_TRY(readPci(child, node, host, 1));
    } else if (tag == "nic") {
      TUTTI_TRY(readNic(child, node, host));
    } else if (tag == "gpu" || tag == "net" || tag == "nvlink") {
      return xml_.error(child, "has no place directly in <cpu>");
    } else if (child.type() == pugi::node_element) {
      ignore(child);
    }
  }
  return {};
}

Status Reader::readPciInfo(pugi::xml_node e, PciInfo* pci) {
  TUTTI_TRY(readInt(e, "class", -1, 0, 0xffffff, &pci->classCode));
  TUTTI_TRY(readInt(e, "vendor", -1, 0, 0xffff, &pci->vendor));
  TUTTI_TRY(readInt(e, "device", -1, 0, 0xffff, &pci->device));
  TUTTI_TRY(readInt(e, "subsystem_vendor", -1, 0, 0xffff, &pci->subsystemVendor));
  TUTTI_TRY(readInt(e, "subsystem_device", -1, 0, 0xffff, &pci->subsystemDevice));
  TUTTI_TRY(readInt(e, "link_width", 0, 0, 255, &pci->linkWidth));
  if (pci->linkWidth > 64) pci->linkWidth = 0;  // 255 and the like: the kernel's word for unknown
  pci->linkGTps = parseLinkSpeed(e.attribute("link_speed").value());
  if (pci->linkGTps < 0) {
    return xml_.error(e, "link_speed='", e.attribute("link_speed").value(), "' is not a speed such as 16.0 GT/s PCIe");
  }
  return {};
}

NodeKind kindOf(pugi::xml_node e, const PciInfo& pci) {
  if (e.child("gpu")) return NodeKind::Gpu;
  if (e.child("pci")) return NodeKind::PciSwitch;
  if (e.child("nic")) return NodeKind::Nic;
  return kindOfPciClass(pci);
}

Status Reader::readPci(pugi::xml_node e, int parent, int host, int depth) {
  if (depth > kDeepest) return xml_.error(e, "more than ", kDeepest, " levels deep");
  Node n;
  n.parent = parent;
  n.busId = canonicalBusId(e.attribute("busid").value());
  if (n.busId.empty()) return xml_.error(e, "has no busid");
  TUTTI_TRY(readPciInfo(e, &n.pci));
  if (n.pci.classCode < 0 && !e.child("gpu") && !e.child("pci") && !e.child("nic")) {
    return xml_.error(e, "has neither a class nor anything in it that tells what it is");
  }
  n.kind = kindOf(e, n.pci);
  keepOthers(e,
             {"busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device", "link_speed", "link_width",
              "gbps"},
             "pci.", &n);
  const auto [known, isNew] = busIds_.insert({{host, n.busId}, static_cast<int>(g_.nodes.size())});
  if (!isNew) return xml_.error(e, "busid ", n.busId, " is there twice");
  const int node = g_.add(std::move(n));
  TUTTI_TRY(connectPci(e, node));
  int gpus = 0;
  for (const pugi::xml_node child : e.children()) {
    const std::string_view tag = child.name();
    if (tag == "pci") {
      if (at(node).kind != NodeKind::PciSwitch)
        return xml_.error(child, "a ", kindName(at(node).kind), " holds no <pci>");
      TUTTI_TRY(readPci(child, node, host, depth + 1));
    } else if (tag == "gpu") {
      if (++gpus > 1) return xml_.error(child, "a second <gpu> in one <pci>");
      TUTTI_TRY(readGpu(child, node, host));
    } else if (tag == "nic") {
      TUTTI_TRY(readNic(child, node, host));
    } else if (tag == "nvlink" || tag == "xgmi" || tag == "pcilink") {
      const LinkKind kind = tag == "nvlink" ? LinkKind::NvLink : tag == "xgmi" ? LinkKind::Xgmi : LinkKind::PciPeer;
      pending_.push_back({node, kind, child, host});
    } else if (tag == "cpu" || tag == "net" || tag == "system") {
      return xml_.error(child, "has no place in <pci>");
    } else if (child.type() == pugi::node_element) {
      ignore(child);
    }
  }
  return {};
}

Status Reader::connectPci(pugi::xml_node e, int node) {
  const PciInfo& pci = at(node).pci;
  const double known = pcieGBps(pci.linkGTps, pci.linkWidth);
  TUTTI_ASSIGN(const double given, xml_.number(e, "gbps", 0));
  Link link{at(node).parent, node, LinkKind::Pci, 1, given > 0 ? given : known, false};
  if (link.gbps <= 0) {
    link.gbps = assumedPcieGBps();
    link.assumed = true;
  }
  g_.connect(link);
  return {};
}

Status Reader::readGpu(pugi::xml_node e, int node, int host) {
  Node& n = at(node);
  TUTTI_TRY(readInt(e, "dev", -1, -1, kMostIndex, &n.index));
  TUTTI_TRY(readInt(e, "sm", 0, 0, 100000, &n.gpu.sm));
  TUTTI_TRY(readInt(e, "rank", -1, -1, kMostIndex, &n.gpu.rank));
  n.gpu.gcn = e.attribute("gcn").value();
  keepOthers(e, {"dev", "sm", "rank", "gcn"}, "", &n);
  for (const pugi::xml_node child : e.children()) {
    const std::string_view tag = child.name();
    if (tag == "nvlink" || tag == "xgmi") {
      pending_.push_back({node, tag == "nvlink" ? LinkKind::NvLink : LinkKind::Xgmi, child, host});
    } else if (tag == "c2c") {
      TUTTI_TRY(connectC2c(child, node));
    } else if (child.type() == pugi::node_element) {
      ignore(child);
    }
  }
  return {};
}

/// `bw` is MB/s of one of `count` links to the CPU that the GPU is part of.
Status Reader::connectC2c(pugi::xml_node e, int gpu) {
  int count = 1;
  TUTTI_TRY(readInt(e, "count", 1, 1, 1024, &count));
  TUTTI_ASSIGN(const double given, xml_.number(e, "gbps", 0));
  TUTTI_ASSIGN(const double bw, xml_.number(e, "bw", 0));
  const double gbps = given > 0 ? given : bw * count / 1000;
  if (gbps <= 0) return xml_.error(e, "has no bw");
  g_.connect({g_.enclosing(gpu, NodeKind::Numa), gpu, LinkKind::C2C, count, gbps, false});
  return {};
}

Status Reader::readNic(pugi::xml_node e, int parent, int host) {
  int nic = parent;
  if (at(parent).kind == NodeKind::Numa) {
    Node n;
    n.kind = NodeKind::Nic;
    n.parent = parent;
    nic = g_.add(n);
  } else if (at(parent).kind != NodeKind::Nic) {
    return xml_.error(e, "a ", kindName(at(parent).kind), " holds no <nic>");
  }
  const size_t firstNet = g_.nodes.size(), firstLink = g_.links.size();
  for (const pugi::xml_node child : e.children()) {
    if (std::string_view(child.name()) == "net") {
      TUTTI_TRY(readNet(child, nic));
    } else if (child.type() == pugi::node_element) {
      ignore(child);
    }
  }
  if (nic == parent) return {};
  // An adapter without a place on PCI may be listed under every <cpu>: the same ports are the same adapter.
  for (const int other : g_.all(NodeKind::Nic, host)) {
    const std::vector<int> theirs = g_.children(other);
    bool same = other != nic && at(other).busId.empty() && theirs.size() == g_.nodes.size() - firstNet;
    for (size_t i = 0; same && i < theirs.size(); ++i) {
      const Node &mine = g_.nodes[firstNet + i], &yours = at(theirs[i]);
      same = mine.name == yours.name && mine.index == yours.index && mine.net == yours.net;
    }
    if (!same) continue;
    g_.nodes.resize(firstNet - 1);
    g_.links.resize(firstLink);
    nic = other;
    break;
  }
  double ports = 0;
  for (const int net : g_.children(nic))
    ports += (at(net).net.speedMbps > 0 ? at(net).net.speedMbps : assumedNetMbps()) / 8000.0;
  g_.connect({parent, nic, LinkKind::Pci, 1, std::max(ports, assumedPcieGBps()), true});
  return {};
}

Status Reader::readNet(pugi::xml_node e, int nic) {
  Node n;
  n.kind = NodeKind::Net;
  n.parent = nic;
  n.name = e.attribute("name").value();
  TUTTI_TRY(readInt(e, "dev", -1, -1, kMostIndex, &n.index));
  TUTTI_TRY(readInt(e, "speed", 0, -1, 1 << 30, &n.net.speedMbps));
  TUTTI_TRY(readInt(e, "port", -1, -1, 1 << 16, &n.net.port));
  TUTTI_TRY(readInt(e, "rail", -1, -1, kMostIndex, &n.net.rail));
  TUTTI_TRY(readInt(e, "plane", -1, -1, kMostIndex, &n.net.plane));
  TUTTI_ASSIGN(n.net.latencyUs, xml_.number(e, "latency", 0));
  TUTTI_ASSIGN(n.net.guid, xml_.hex64(e, "guid"));
  n.net.speedMbps = std::max(0, n.net.speedMbps);  // -1: the driver did not know
  keepOthers(e, {"name", "dev", "speed", "port", "rail", "plane", "latency", "guid", "gbps"}, "", &n);
  TUTTI_ASSIGN(const double given, xml_.number(e, "gbps", 0));
  const bool assumed = given <= 0 && n.net.speedMbps == 0;
  const double gbps = given > 0 ? given : (assumed ? assumedNetMbps() : n.net.speedMbps) / 8000.0;
  const int net = g_.add(std::move(n));
  g_.connect({nic, net, LinkKind::Port, 1, gbps, assumed});
  return {};
}

int Reader::targetOf(const Pending& p, const std::string& target, int64_t targetClass) {
  const auto known = busIds_.find({p.host, target});
  if (known != busIds_.end()) return known->second;
  if (targetClass == 0x068000) {
    Node n;
    n.kind = NodeKind::NvSwitch;
    n.parent = p.host;
    n.busId = target;
    const int node = g_.add(n);
    busIds_[{p.host, target}] = node;
    return node;
  }
  if (targetClass == 0x068001) return g_.enclosing(p.from, NodeKind::Numa);  // a CPU with NVLink: POWER9
  return -1;
}

Status Reader::resolve(const Pending& p) {
  const std::string target = canonicalBusId(p.element.attribute("target").value());
  if (target.empty()) return xml_.error(p.element, "has no target");
  TUTTI_ASSIGN(const int64_t targetClass, xml_.integer(p.element, "tclass", -1, 0, 0xffffff));
  const int to = targetOf(p, target, targetClass);
  if (to < 0) {
    g_.note(cat("line ", xml_.line(p.element), ": <", p.element.name(), "> to ", target, ", which is not in the file"));
    return {};
  }
  if (to == p.from) return xml_.error(p.element, "a link from ", target, " to itself");
  if (p.kind == LinkKind::PciPeer) return resolvePciPeer(p, to);
  int count = 1;
  TUTTI_TRY(readInt(p.element, "count", 1, 0, 1024, &count));
  TUTTI_ASSIGN(const double given, xml_.number(p.element, "gbps", 0));
  if (count == 0) return {};
  Lanes& lanes = lanes_[{p.from, to}][p.kind];
  lanes.count += count;
  lanes.gbps += given;
  return {};
}

Status Reader::resolvePciPeer(const Pending& p, int target) {
  if (at(p.from).kind != NodeKind::PciSwitch || at(target).kind != NodeKind::PciSwitch) {
    return xml_.error(p.element, "joins switches, and ", at(target).busId, " or the element around it is none");
  }
  if (g_.linkBetween(p.from, target, LinkKind::PciPeer) >= 0) return {};
  const auto speed = [&](int node) { return pcieGBps(at(node).pci.linkGTps, at(node).pci.linkWidth); };
  const double known = std::min(speed(p.from), speed(target));
  g_.connect({std::min(p.from, target), std::max(p.from, target), LinkKind::PciPeer, 1,
              known > 0 ? known : assumedPcieGBps(), known <= 0});
  return {};
}

/// Both ends of a link list it: one link of the graph, with the larger count should they disagree.
void Reader::connectLanes() {
  for (const auto& [ends, kinds] : lanes_) {
    for (const auto& [kind, lanes] : kinds) {
      const auto [from, to] = ends;
      Lanes most = lanes;
      const auto back = lanes_.find({to, from});
      if (back != lanes_.end() && back->second.count(kind) != 0) {
        if (to < from) continue;  // seen from the other end
        const Lanes& other = back->second.at(kind);
        if (other.count != lanes.count) {
          g_.note(cat("the ends disagree on the number of ", kindName(kind), "s between ", at(from).busId, " and ",
                      at(to).busId, ": ", lanes.count, " and ", other.count));
        }
        if (other.count > lanes.count) most = other;
      }
      const GpuInfo& gpu = at(at(from).kind == NodeKind::Gpu ? from : to).gpu;
      const double each = kind == LinkKind::Xgmi ? xgmiGBps(gpu.gcn) : nvlinkGBps(gpu.sm);
      g_.connect({std::min(from, to), std::max(from, to), kind, most.count,
                  most.gbps > 0 ? most.gbps : each * most.count, false});
    }
  }
}

}  // namespace

Result<Graph> readNcclXml(std::string_view text, const std::string& origin) { return Reader().read(text, origin); }

}  // namespace tutti::topology

#else
namespace tutti::topology {

Result<Graph> readNcclXml(std::string_view, const std::string& origin) {
  return invalidUsage(origin, ": this build of Tutti reads no XML (Meson option pugixml)");
}

}  // namespace tutti::topology
#endif
