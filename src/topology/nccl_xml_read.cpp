#include "src/topology/nccl_xml.hpp"

#if TUTTI_HAVE_PUGIXML
#include <algorithm>
#include <map>

#include "src/topology/complete.hpp"
#include "src/topology/nccl_xml_file.hpp"
#include "src/topology/nccl_xml_links.hpp"
#include "src/topology/rates.hpp"

namespace tutti::topology {
namespace {

constexpr int kDeepest = 64;         // levels of <pci>; PCI itself allows 256 buses
constexpr int kMostIndex = 1 << 20;  // of devices, ranks, NUMA nodes
constexpr const char* kNoPlace = "has no place here: left out with what is in it";

class Reader {
 public:
  Result<Graph> read(std::string_view text, const std::string& origin);

 private:
  Status readCpu(pugi::xml_node e);
  void nothingKnown();
  int hostOfHash(uint64_t hash);
  int numaOf(pugi::xml_node e, int host);
  void readProcessor(pugi::xml_node e, Node* numa);
  Status readPci(pugi::xml_node e, int parent, int host, int depth);
  Status readInside(pugi::xml_node e, int node, int host, int depth);
  PciInfo readPciInfo(pugi::xml_node e);
  bool nameApart(pugi::xml_node e, int host, Node* n);
  void connectPci(pugi::xml_node e, int node);
  Status readGpu(pugi::xml_node e, int node, int host);
  void readNic(pugi::xml_node e, int parent, int host);
  int sameAs(int nic, size_t firstNet, int host);
  void readNet(pugi::xml_node e, int nic);
  void keepOthers(pugi::xml_node e, std::initializer_list<std::string_view> known, const char* prefix, Node* node);
  void ignore(pugi::xml_node e);
  Node& at(int node) { return g_.nodes[static_cast<size_t>(node)]; }

  NcclFile file_;
  Graph g_;
  std::map<uint64_t, int> hosts_;
  std::map<std::pair<int, int>, int> numas_;  // host, numaid
  NcclLinks::BusIds busIds_;
  std::map<std::pair<int, std::string>, int> copies_;  // host, bus id: how often it was met again
  NcclLinks links_{file_, g_, busIds_};
};

Result<Graph> Reader::read(std::string_view text, const std::string& origin) {
  TUTTI_TRY(file_.open(text, origin));
  for (const pugi::xml_node e : file_.root().children()) {
    if (std::string_view(e.name()) == "cpu") {
      TUTTI_TRY(readCpu(e));
    } else {
      ignore(e);
    }
  }
  if (g_.nodes.empty()) nothingKnown();
  TUTTI_TRY(links_.connect());
  g_.leftOut = file_.leftOut();
  for (std::string& remark : file_.remarks()) g_.note(std::move(remark));
  TUTTI_TRY(complete(g_));
  return std::move(g_);
}

/// NCCL goes on with such a file, as with one whose devices the machine does not have.
void Reader::nothingKnown() {
  Node numa{.kind = NodeKind::Numa, .parent = hostOfHash(0)};
  g_.add(std::move(numa));
  file_.leaveOut(file_.root(), "", "has no <cpu>: it says nothing of the machine");
}

void Reader::ignore(pugi::xml_node e) {
  if (e.type() == pugi::node_element) file_.leaveOut(e, "", kNoPlace);
}

void Reader::keepOthers(pugi::xml_node e, std::initializer_list<std::string_view> known, const char* prefix,
                        Node* node) {
  for (const pugi::xml_attribute a : e.attributes()) {
    bool isKnown = false;
    for (const std::string_view name : known) isKnown = isKnown || name == a.name();
    if (!isKnown) node->extra.emplace_back(cat(prefix, a.name()), a.value());
  }
}

int Reader::hostOfHash(uint64_t hash) {
  const auto known = hosts_.find(hash);
  if (known != hosts_.end()) return known->second;
  Node host{.kind = NodeKind::Host, .hostHash = hash};
  return hosts_[hash] = g_.add(std::move(host));
}

void Reader::readProcessor(pugi::xml_node e, Node* numa) {
  numa->cpu.family = file_.integer(e, "familyid", -1, -1, 1 << 20);
  numa->cpu.model = file_.integer(e, "modelid", -1, -1, 1 << 20);
  numa->cpu.arch = e.attribute("arch").value();
  numa->cpu.vendor = e.attribute("vendor").value();
  auto cpus = CpuSet::parseMask(e.attribute("affinity").value());
  if (cpus.ok()) {
    numa->cpus = *cpus;
  } else {
    file_.leaveOut(e, "affinity");
  }
  keepOthers(e, {"numaid", "familyid", "modelid", "arch", "vendor", "affinity", "host_hash"}, "", numa);
}

/// The NUMA node of a <cpu>; one that is listed twice is one.
int Reader::numaOf(pugi::xml_node e, int host) {
  Node numa{.kind = NodeKind::Numa, .parent = host, .index = file_.integer(e, "numaid", 0, -1, kMostIndex)};
  const auto [known, isNew] = numas_.insert({{host, numa.index}, static_cast<int>(g_.nodes.size())});
  if (!isNew) {
    file_.remark(e, cat("numaid=", numa.index),
                 "is there twice: its devices are added to those of the first, which alone counts");
    return known->second;
  }
  readProcessor(e, &numa);
  return g_.add(std::move(numa));
}

Status Reader::readCpu(pugi::xml_node e) {
  if (!e.attribute("numaid")) return file_.error(e, "has no numaid");
  const int host = hostOfHash(file_.hex64(e, "host_hash"));
  const int node = numaOf(e, host);
  for (const pugi::xml_node child : e.children()) {
    const std::string_view tag = child.name();
    if (tag == "pci") {
      TUTTI_TRY(readPci(child, node, host, 1));
    } else if (tag == "nic") {
      readNic(child, node, host);
    } else {
      ignore(child);
    }
  }
  return {};
}

PciInfo Reader::readPciInfo(pugi::xml_node e) {
  PciInfo pci;
  pci.classCode = file_.pciClass(e, "class");
  pci.vendor = file_.integer(e, "vendor", -1, 0, 0xffff);
  pci.device = file_.integer(e, "device", -1, 0, 0xffff);
  pci.subsystemVendor = file_.integer(e, "subsystem_vendor", -1, 0, 0xffff);
  pci.subsystemDevice = file_.integer(e, "subsystem_device", -1, 0, 0xffff);
  pci.linkWidth = file_.integer(e, "link_width", 0, 0, 255);
  if (pci.linkWidth > 64) pci.linkWidth = 0;  // 255 and the like: the kernel's word for unknown
  pci.linkGTps = parseLinkSpeed(e.attribute("link_speed").value());
  if (pci.linkGTps < 0) {
    file_.leaveOut(e, "link_speed");
    pci.linkGTps = 0;
  }
  return pci;
}

NodeKind kindOf(pugi::xml_node e, const PciInfo& pci) {
  if (e.child("gpu")) return NodeKind::Gpu;
  if (e.child("pci")) return NodeKind::PciSwitch;
  if (e.child("nic")) return NodeKind::Nic;
  return kindOfPciClass(pci);
}

/// A bus id that the host has already gets a number: what is below it counts, as in NCCL, and is found by its own.
/// False for a device that says nothing more than the first: it is left out.
bool Reader::nameApart(pugi::xml_node e, int host, Node* n) {
  const auto known = busIds_.find({host, n->busId});
  if (known == busIds_.end()) return true;
  if (!e.first_child() && at(known->second).kind == n->kind) {
    file_.leaveOut(e, n->busId, "is listed already: left out");
    return false;
  }
  int& copy = copies_.emplace(std::pair(host, n->busId), 1).first->second;
  std::string apart;
  do {
    apart = cat(n->busId, "#", ++copy);
  } while (busIds_.count({host, apart}) != 0);
  file_.leaveOut(e, n->busId, "has the bus id of an earlier one: the id is left out, the device is read");
  n->busId = std::move(apart);
  return true;
}

Status Reader::readPci(pugi::xml_node e, int parent, int host, int depth) {
  if (depth > kDeepest) return file_.error(e, "more than ", kDeepest, " levels deep");
  Node n{.parent = parent, .busId = canonicalBusId(e.attribute("busid").value())};
  if (n.busId.empty()) {
    if (e.child("pci")) return file_.error(e, "has no busid");
    file_.leaveOut(e, "", "has no busid: left out with what is in it");
    return {};
  }
  n.pci = readPciInfo(e);
  n.kind = kindOf(e, n.pci);
  if (n.pci.classCode < 0 && n.kind == NodeKind::PciDevice) {
    file_.remark(e, n.busId, "has neither a class nor anything in it: it is not known what it is, but where");
  }
  keepOthers(e,
             {"busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device", "link_speed", "link_width",
              "gbps"},
             "pci.", &n);
  if (!nameApart(e, host, &n)) return {};
  busIds_[{host, n.busId}] = static_cast<int>(g_.nodes.size());
  const int node = g_.add(std::move(n));
  connectPci(e, node);
  return readInside(e, node, host, depth);
}

Status Reader::readInside(pugi::xml_node e, int node, int host, int depth) {
  bool isFirstGpu = true;
  for (const pugi::xml_node child : e.children()) {
    const std::string_view tag = child.name();
    const NodeKind kind = at(node).kind;
    if (tag == "pci" && kind == NodeKind::PciSwitch) {
      TUTTI_TRY(readPci(child, node, host, depth + 1));
    } else if (tag == "gpu" && isFirstGpu) {
      isFirstGpu = false;
      TUTTI_TRY(readGpu(child, node, host));
    } else if (tag == "nic" && (kind == NodeKind::Nic || kind == NodeKind::PciSwitch)) {
      readNic(child, node, host);
    } else if (NcclLinks::isLink(tag) && tag != "c2c") {
      TUTTI_TRY(links_.add(child, node, host));
    } else if (tag == "pci" || tag == "nic" || tag == "gpu") {
      file_.leaveOut(child, "", cat("has no place in a ", kindName(kind), ": left out with what is in it"));
    } else {
      ignore(child);
    }
  }
  return {};
}

void Reader::connectPci(pugi::xml_node e, int node) {
  const PciInfo& pci = at(node).pci;
  const double given = file_.number(e, "gbps", 0), known = pcieGBps(pci.linkGTps, pci.linkWidth);
  Link link{at(node).parent, node, LinkKind::Pci, 1, given > 0 ? given : known, false};
  if (link.gbps <= 0) {
    link.gbps = assumedPcieGBps();
    link.assumed = true;
  }
  g_.connect(link);
}

Status Reader::readGpu(pugi::xml_node e, int node, int host) {
  Node& n = at(node);
  n.index = file_.integer(e, "dev", -1, -1, kMostIndex);
  n.gpu.sm = file_.integer(e, "sm", 0, 0, 100000);
  n.gpu.rank = file_.integer(e, "rank", -1, -1, kMostIndex);
  n.gpu.gcn = e.attribute("gcn").value();
  keepOthers(e, {"dev", "sm", "rank", "gcn"}, "", &n);
  for (const pugi::xml_node child : e.children()) {
    const std::string_view tag = child.name();
    if (NcclLinks::isLink(tag) && tag != "pcilink") {
      TUTTI_TRY(links_.add(child, node, host));
    } else {
      ignore(child);
    }
  }
  return {};
}

/// The adapter with the same ports, -1 if there is none: one without a place on PCI may be listed under every <cpu>.
int Reader::sameAs(int nic, size_t firstNet, int host) {
  for (const int other : g_.all(NodeKind::Nic, host)) {
    const std::vector<int> theirs = g_.children(other);
    bool same = other != nic && at(other).busId.empty() && at(at(other).parent).kind == NodeKind::Numa &&
                theirs.size() == g_.nodes.size() - firstNet;
    for (size_t i = 0; same && i < theirs.size(); ++i) {
      const Node &mine = g_.nodes[firstNet + i], &yours = at(theirs[i]);
      same = mine.name == yours.name && mine.index == yours.index && mine.net == yours.net;
    }
    if (same) return other;
  }
  return -1;
}

/// In the <pci> of an adapter its ports; else an adapter of its own on the switch or NUMA node.
void Reader::readNic(pugi::xml_node e, int parent, int host) {
  int nic = parent;
  if (at(parent).kind != NodeKind::Nic) {
    Node n{.kind = NodeKind::Nic, .parent = parent};
    nic = g_.add(std::move(n));
  }
  const size_t firstNet = g_.nodes.size(), firstLink = g_.links.size();
  for (const pugi::xml_node child : e.children()) {
    if (std::string_view(child.name()) == "net") {
      readNet(child, nic);
    } else {
      ignore(child);
    }
  }
  if (nic == parent) return;
  const int other = at(parent).kind == NodeKind::Numa ? sameAs(nic, firstNet, host) : -1;
  if (other >= 0) {
    g_.nodes.resize(firstNet - 1);
    g_.links.resize(firstLink);
    nic = other;
  }
  double ports = 0;
  for (const int net : g_.children(nic))
    ports += (at(net).net.speedMbps > 0 ? at(net).net.speedMbps : assumedNetMbps()) / 8000.0;
  g_.connect({parent, nic, LinkKind::Pci, 1, std::max(ports, assumedPcieGBps()), true});
}

void Reader::readNet(pugi::xml_node e, int nic) {
  Node n{.kind = NodeKind::Net, .parent = nic, .name = e.attribute("name").value()};
  n.index = file_.integer(e, "dev", -1, -1, kMostIndex);
  n.net.speedMbps = std::max(0, file_.integer(e, "speed", 0, -1, 1 << 30));  // -1: the driver did not know
  n.net.port = file_.integer(e, "port", -1, -1, 1 << 16);
  n.net.rail = file_.integer(e, "rail", -1, -1, kMostIndex);
  n.net.plane = file_.integer(e, "plane", -1, -1, kMostIndex);
  n.net.latencyUs = file_.number(e, "latency", 0);
  n.net.guid = file_.hex64(e, "guid");
  keepOthers(e, {"name", "dev", "speed", "port", "rail", "plane", "latency", "guid", "gbps"}, "", &n);
  const double given = file_.number(e, "gbps", 0);
  const bool assumed = given <= 0 && n.net.speedMbps == 0;
  const double gbps = given > 0 ? given : (assumed ? assumedNetMbps() : n.net.speedMbps) / 8000.0;
  const int net = g_.add(std::move(n));
  g_.connect({nic, net, LinkKind::Port, 1, gbps, assumed});
}

}  // namespace

Result<Graph> readNcclXml(std::string_view text, const std::string& origin) { return Reader().read(text, origin); }

}  // namespace tutti::topology

#else
namespace tutti::topology {

Result<Graph> readNcclXml(std::string_view, const std::string& origin) {
  return invalidUsage(ErrorCode::NotInBuild, origin, ": this build of Tutti reads no XML (Meson option pugixml)");
}

}  // namespace tutti::topology
#endif
