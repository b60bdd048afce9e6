#include "src/topology/hwloc_import.hpp"

#if TUTTI_HAVE_HWLOC
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "src/base/xml_text.hpp"
#include "src/topology/complete.hpp"
#include "src/topology/hwloc_form.hpp"
#include "src/topology/hwloc_library.hpp"
#include "src/topology/hwloc_nvlinks.hpp"
#include "src/topology/rates.hpp"

namespace tutti::topology {
namespace {

std::string infoOf(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value != nullptr ? value : "";
}

int numberOf(const std::string& text) { return text.empty() ? -1 : std::atoi(text.c_str()); }

CpuSet cpusOf(hwloc_obj_t object) {
  CpuSet set;
  if (object->cpuset == nullptr) return set;
  for (int pu = hwloc().bitmapFirst(object->cpuset); pu >= 0 && pu < CpuSet::kMost;) {
    set.add(pu);
    const int next = hwloc().bitmapNext(object->cpuset, pu);
    if (next < 0) break;
    pu = next;
  }
  return set;
}

class Importer {
 public:
  Result<Graph> import(hwloc_topology_t topology) {
    hwloc_obj_t root = hwloc().objectAt(topology, 0, 0);
    Node host{.kind = NodeKind::Host, .name = infoOf(root, "HostName")};
    host_ = g_.add(host);
    arch_ = infoOf(root, "Architecture");
    cpu(root, host_);
    if (g_.all(NodeKind::Numa).empty())
      return invalidArgument(ErrorCode::TopologyFile, "hwloc gave a machine without memory");
    for (const auto& [object, parent] : io_) io(object, anchor(parent), 0);
    connectNvlinks(topology, nodes_, g_);
    if (repeated_ > 0) {
      g_.leftOut.push_back(cat("<object> ", firstRepeated_,
                               " has the bus id of an earlier one: the id is left out, the device is read",
                               repeated_ > 1 ? cat(" (and ", repeated_ - 1, " more)") : ""));
    }
    TUTTI_TRY(complete(g_));
    return std::move(g_);
  }

 private:
  Node& at(int node) { return g_.nodes[static_cast<size_t>(node)]; }

  CpuInfo cpuInfo(hwloc_obj_t package) const {
    CpuInfo info;
    info.arch = arch_;
    info.vendor = infoOf(package, "CPUVendor");
    info.family = numberOf(infoOf(package, "CPUFamilyNumber"));
    info.model = numberOf(infoOf(package, "CPUModelNumber"));
    return info;
  }

  int add(NodeKind kind, hwloc_obj_t object, int parent) {
    Node n{.kind = kind, .parent = parent};
    n.index = object->os_index == HWLOC_UNKNOWN_INDEX ? static_cast<int>(object->logical_index)
                                                      : static_cast<int>(object->os_index);
    n.cpus = cpusOf(object);
    if (kind == NodeKind::Package) n.cpu = cpuInfo(object);
    if (kind == NodeKind::Numa) n.memoryBytes = object->attr->numanode.local_memory;
    if (kind == NodeKind::L3) n.memoryBytes = object->attr->cache.size;
    if (kind == NodeKind::L3) n.index = static_cast<int>(object->logical_index);
    const int package = g_.enclosing(parent, NodeKind::Package);
    if (kind == NodeKind::Numa) n.cpu = package >= 0 ? at(package).cpu : cpuInfo(firstPackage(object));
    return nodes_[object] = g_.add(std::move(n));
  }

  static hwloc_obj_t firstPackage(hwloc_obj_t object) {
    while (object->parent != nullptr) object = object->parent;
    while (object->type != HWLOC_OBJ_PACKAGE && object->first_child != nullptr) object = object->first_child;
    return object;
  }

  /// Memory children hang beside the tree.  The first NUMA node of an object holds what is below the object; others
  /// (high-bandwidth memory) stand alone.  One of a part of what another holds stands beside that one.
  void memory(hwloc_obj_t object, int* holder) {
    const int start = *holder;
    int above = start;
    while (at(above).kind == NodeKind::Numa) above = at(above).parent;
    for (hwloc_obj_t child = object->memory_first_child; child != nullptr; child = child->next_sibling) {
      hwloc_obj_t numa = child;
      while (numa != nullptr && numa->type != HWLOC_OBJ_NUMANODE) numa = numa->memory_first_child;
      if (numa == nullptr) continue;
      const int node = add(NodeKind::Numa, numa, above);
      if (*holder == start && at(above).kind != NodeKind::Core) *holder = node;
    }
  }

  void cpu(hwloc_obj_t object, int holder) {
    if (object->type == HWLOC_OBJ_PACKAGE) holder = add(NodeKind::Package, object, holder);
    const bool coreFits = object->type == HWLOC_OBJ_CORE;
    if (object->type == HWLOC_OBJ_L3CACHE) holder = add(NodeKind::L3, object, holder);
    if (coreFits) {
      add(NodeKind::Core, object, holder);
      return;
    }
    memory(object, &holder);
    for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling) {
      io_.push_back({child, holder});
    }
    for (hwloc_obj_t child = object->first_child; child != nullptr; child = child->next_sibling) cpu(child, holder);
  }

  /// The NUMA node that a device belongs to: the one around it, else the first below the package or host.
  int anchor(int holder) {
    const int around = g_.enclosing(holder, NodeKind::Numa);
    if (around >= 0) return around;
    for (const int numa : g_.all(NodeKind::Numa)) {
      for (int up = numa; up >= 0; up = at(up).parent) {
        if (up == holder) return numa;
      }
    }
    return g_.all(NodeKind::Numa).front();
  }

  /// `ports` is the number of bridges passed on the way down, root port included.
  void io(hwloc_obj_t object, int parent, int ports) {
    if (object->type == HWLOC_OBJ_BRIDGE) {
      const bool isPci = object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
      const bool isSwitch = isPci && ports % 2 == 1;
      const int holder = isSwitch && leads(object) ? addPci(object, NodeKind::PciSwitch, parent) : parent;
      for (hwloc_obj_t c = object->io_first_child; c != nullptr; c = c->next_sibling) io(c, holder, ports + isPci);
    } else if (object->type == HWLOC_OBJ_PCI_DEVICE) {
      device(object, parent);
    } else if (object->type == HWLOC_OBJ_OS_DEVICE) {
      withoutPci(object, parent);
    }
  }

  /// Whether something worth a node is below the bridge.
  static bool leads(hwloc_obj_t bridge) {
    for (hwloc_obj_t c = bridge->io_first_child; c != nullptr; c = c->next_sibling) {
      if (c->type == HWLOC_OBJ_BRIDGE ? leads(c) : c->type == HWLOC_OBJ_PCI_DEVICE && matters(c)) return true;
    }
    return false;
  }

  static PciInfo pciInfo(hwloc_obj_t object) {
    const auto& a = object->type == HWLOC_OBJ_BRIDGE ? object->attr->bridge.upstream.pci : object->attr->pcidev;
    PciInfo pci;
    pci.classCode = a.class_id << 8;
    pci.vendor = a.vendor_id;
    pci.device = a.device_id;
    pci.subsystemVendor = a.subvendor_id;
    pci.subsystemDevice = a.subdevice_id;
    pcieFromRate(static_cast<double>(a.linkspeed), &pci.linkGTps, &pci.linkWidth);
    return pci;
  }

  /// GPUs, adapters and their switches; of the rest displays and storage, which share the bandwidth.
  static bool matters(hwloc_obj_t object) {
    const PciInfo pci = pciInfo(object);
    const int base = pci.classCode >> 16;
    const NodeKind kind = kindOfPciClass(pci);
    return kind == NodeKind::Gpu || kind == NodeKind::Nic || kind == NodeKind::NvSwitch || base == 0x03 || base == 0x01;
  }

  int addPci(hwloc_obj_t object, NodeKind kind, int parent) {
    const auto& a = object->type == HWLOC_OBJ_BRIDGE ? object->attr->bridge.upstream.pci : object->attr->pcidev;
    Node n{.kind = kind, .parent = parent};
    n.pci = pciInfo(object);
    char busId[32];
    std::snprintf(busId, sizeof busId, "%04x:%02x:%02x.%x", static_cast<unsigned>(a.domain), a.bus, a.dev, a.func);
    n.busId = apart(busId);
    const int node = nodes_[object] = g_.add(n);
    const double known = pcieGBps(n.pci.linkGTps, n.pci.linkWidth);
    g_.connect({parent, node, LinkKind::Pci, 1, known > 0 ? known : assumedPcieGBps(), known <= 0});
    return node;
  }

  /// A bus id that is there already gets a number.  hwloc's lines are not known here.
  std::string apart(const std::string& busId) {
    const int copies = ++copies_[busId];
    if (copies == 1) return busId;
    ++repeated_;
    if (repeated_ == 1) firstRepeated_ = busId;
    return cat(busId, "#", copies);
  }

  void device(hwloc_obj_t object, int parent) {
    if (!matters(object)) return;
    const NodeKind kind = kindOfPciClass(pciInfo(object));
    const int node = addPci(object, kind, parent);
    if (kind == NodeKind::Nic) ports(object, node);
    if (kind == NodeKind::Gpu) gpuNumber(object, node);
    if (kind != NodeKind::PciDevice) return;
    for (hwloc_obj_t c = object->io_first_child; c != nullptr; c = c->next_sibling) {
      if (at(node).name.empty() && c->type == HWLOC_OBJ_OS_DEVICE && c->name != nullptr) at(node).name = c->name;
    }
    if (at(node).name.empty() && at(node).pci.classCode >> 16 == 0x03) at(node).name = "display " + at(node).busId;
  }

  /// The CUDA or NVML number, where hwloc had the means to know it.
  void gpuNumber(hwloc_obj_t object, int node) {
    for (hwloc_obj_t c = object->io_first_child; c != nullptr; c = c->next_sibling) {
      const std::string name = c->name != nullptr ? c->name : "";
      for (const char* prefix : {"cuda", "nvml", "rsmi"}) {
        if (name.starts_with(prefix) && at(node).index < 0) at(node).index = numberOf(name.substr(4));
      }
    }
  }

  /// The RDMA devices of an adapter, or its interfaces if it has none.
  void ports(hwloc_obj_t object, int nic) {
    for (const auto wanted : {HWLOC_OBJ_OSDEV_OPENFABRICS, HWLOC_OBJ_OSDEV_NETWORK}) {
      bool any = false;
      for (hwloc_obj_t c = object->io_first_child; c != nullptr; c = c->next_sibling) {
        if (c->type != HWLOC_OBJ_OS_DEVICE || c->attr->osdev.type != wanted) continue;
        port(c, nic);
        any = true;
      }
      if (any) return;
    }
  }

  void port(hwloc_obj_t object, int nic) {
    Node n{.kind = NodeKind::Net, .parent = nic, .name = object->name != nullptr ? object->name : ""};
    std::string guid = infoOf(object, "NodeGUID");
    std::erase(guid, ':');
    if (!guid.empty()) n.net.guid = std::strtoull(guid.c_str(), nullptr, 16);
    if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) n.net.port = 1;
    const int net = g_.add(n);
    g_.connect({nic, net, LinkKind::Port, 1, assumedNetMbps() / 8000.0, true});
  }

  /// Interfaces that hwloc could not place on PCI.
  void withoutPci(hwloc_obj_t object, int parent) {
    const auto type = object->attr->osdev.type;
    if (type != HWLOC_OBJ_OSDEV_OPENFABRICS && type != HWLOC_OBJ_OSDEV_NETWORK) return;
    Node n{.kind = NodeKind::Nic, .parent = parent};
    const int nic = g_.add(n);
    g_.connect({parent, nic, LinkKind::Pci, 1, assumedPcieGBps(), true});
    port(object, nic);
  }

  Graph g_;
  int host_ = 0;
  std::string arch_;
  std::map<hwloc_obj_t, int> nodes_;
  std::map<std::string, int> copies_;  // of a bus id
  int repeated_ = 0;
  std::string firstRepeated_;
  std::vector<std::pair<hwloc_obj_t, int>> io_;  // with their holders; placed when all NUMA nodes are known
};

}  // namespace

Result<Graph> readHwlocXml(std::string_view text, const std::string& origin) {
#if TUTTI_HAVE_PUGIXML
  // hwloc does not say where it stumbled: what can be found before is.
  XmlText xml{ErrorCode::TopologyFile};
  TUTTI_TRY(xml.parse(text, origin));
  if (std::string_view(xml.root().name()) != "topology")
    return xml.error(xml.root(), "hwloc's XML starts with <topology>");
  if (!xml.root().child("object")) return xml.error(xml.root(), "there is no <object> in it");
#endif
  TUTTI_ASSIGN(const HwlocTopology t, makeHwlocTopology());
  const HwlocForm form = hwlocFormOf(text);
  if (form.major > 3) {
    return invalidArgument(ErrorCode::TopologyFile, origin, ": its form, ", form.text(),
                           ", is of a newer hwloc than the installed one, of interface ", hwloc().interface(),
                           "; that one's lstopo --of xml --export-xml-flags 2 writes form 2.0");
  }
  std::string copy(text);
  if (form.major == 3) {
    TUTTI_ASSIGN(copy, toHwlocForm2(text, origin));
  }
  if (hwloc().setXmlBuffer(t.get(), copy.c_str(), static_cast<int>(copy.size() + 1)) != 0 ||
      hwloc().load(t.get()) != 0) {
    return invalidArgument(ErrorCode::TopologyFile, origin, ": the installed hwloc, of interface ", hwloc().interface(),
                           ", does not accept this description of form ", form.text());
  }
  return Importer().import(t.get());
}

Result<Graph> parseHwlocSynthetic(const std::string& text) {
  TUTTI_ASSIGN(const HwlocTopology t, makeHwlocTopology());
  if (hwloc().setSynthetic(t.get(), text.c_str()) != 0 || hwloc().load(t.get()) != 0) {
    return invalidArgument(ErrorCode::TopologyLine, "hwloc does not accept the synthetic description '", text, "'");
  }
  return Importer().import(t.get());
}

Result<Graph> discoverByHwloc() {
  TUTTI_ASSIGN(const HwlocTopology t, makeHwlocTopology());
  if (hwloc().load(t.get()) != 0)
    return errnoError(errno, ErrorCode::MachineUnreadable, "hwloc cannot look at this machine");
  return Importer().import(t.get());
}

}  // namespace tutti::topology

#else
namespace tutti::topology {
namespace {
Status none() { return invalidUsage(ErrorCode::NotInBuild, "this build of Tutti has no hwloc (Meson option hwloc)"); }
}  // namespace

Result<Graph> readHwlocXml(std::string_view, const std::string&) { return none(); }
Result<Graph> parseHwlocSynthetic(const std::string&) { return none(); }
Result<Graph> discoverByHwloc() { return none(); }

}  // namespace tutti::topology
#endif
