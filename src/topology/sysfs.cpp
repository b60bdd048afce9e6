#include "src/topology/sysfs.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include "src/base/folder.hpp"
#include "src/topology/complete.hpp"
#include "src/topology/rates.hpp"

namespace tutti::topology::sysfs {
namespace {

namespace fs = std::filesystem;

int integer(const std::string& path, int absent) {
  const std::string text = line(path);
  if (text.empty()) return absent;
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 0);
  return end != text.c_str() && value >= INT32_MIN && value <= INT32_MAX ? static_cast<int>(value) : absent;
}

/// The numbers of the folders "node0", "node8", ...
std::vector<int> numbered(const std::string& folder, const std::string& prefix) {
  std::vector<int> found;
  for (const std::string& name : names(folder)) {
    const std::string digits = name.starts_with(prefix) ? name.substr(prefix.size()) : "";
    const bool number =
        !digits.empty() && digits.size() < 7 && digits.find_first_not_of("0123456789") == std::string::npos;
    if (number) found.push_back(std::atoi(digits.c_str()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

CpuSet cpuList(const std::string& path) {
  auto set = CpuSet::parseList(line(path));
  return set.ok() ? *set : CpuSet();
}

/// "Node 0 MemTotal:       15204352 kB"
size_t nodeMemory(const std::string& path) {
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    const size_t at = text.find("MemTotal:");
    if (at != std::string::npos) return std::strtoull(text.c_str() + at + 9, nullptr, 10) * 1024;
  }
  return 0;
}

CpuInfo processorInfo(const std::string& root) {
  CpuInfo info;
  std::ifstream file(root + "/proc/cpuinfo");
  for (std::string text; std::getline(file, text) && !text.empty();) {  // the first processor's paragraph
    const size_t colon = text.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = text.substr(colon + 2);
    if (text.starts_with("vendor_id")) info.vendor = value;
    if (text.starts_with("cpu family")) info.family = std::atoi(value.c_str());
    if (text.starts_with("model\t")) info.model = std::atoi(value.c_str());
  }
  if (!info.vendor.empty()) info.arch = "x86_64";
  return info;
}

int add(Graph& g, NodeKind kind, int parent, int index, const CpuSet& cpus, const CpuInfo& cpu) {
  Node n{.kind = kind, .parent = parent, .index = index, .cpus = cpus};
  n.cpu = cpu;
  return g.add(std::move(n));
}

/// The last-level cache of a processor, as the folder of /sys that tells of it; "" where the system shows none.
std::string cacheFolder(const std::string& cpuFolder, int pu) {
  for (int index = 3; index < 6; ++index) {  // 0 to 2 are the first and second level's
    std::string folder = cat(cpuFolder, "/cpu", pu, "/cache/index", index);
    if (line(folder + "/level") == "3") return folder;
  }
  return "";
}

/// The cache that holds this processor, a new node or one of those in `caches`; the NUMA node itself where there is
/// none that lies within it.
int cacheOf(Graph& g, const std::string& cpuFolder, int pu, int numa, std::vector<int>* caches) {
  for (const int cache : *caches) {
    if (g.nodes[static_cast<size_t>(cache)].cpus.has(pu)) return cache;
  }
  const std::string folder = cacheFolder(cpuFolder, pu);
  const CpuSet shared = folder.empty() ? CpuSet() : cpuList(folder + "/shared_cpu_list");
  if (!shared.has(pu) || !g.nodes[static_cast<size_t>(numa)].cpus.contains(shared)) return numa;
  const int number = static_cast<int>(g.all(NodeKind::L3).size());
  const int cache = add(g, NodeKind::L3, numa, number, shared, {});
  size_t bytes = 0;
  if (parseBytes(line(folder + "/size"), &bytes)) g.nodes[static_cast<size_t>(cache)].memoryBytes = bytes;
  caches->push_back(cache);
  return cache;
}

void addCores(Graph& g, const std::string& cpuFolder, int numa) {
  const CpuSet cpus = g.nodes[static_cast<size_t>(numa)].cpus;
  CpuSet seen;
  std::vector<int> caches;
  for (int pu = 0; pu < CpuSet::kMost && !cpus.empty() && seen.count() < cpus.count(); ++pu) {
    if (!cpus.has(pu) || seen.has(pu)) continue;
    CpuSet siblings = cpuList(cat(cpuFolder, "/cpu", pu, "/topology/thread_siblings_list"));
    if (!siblings.has(pu) || !cpus.contains(siblings)) {
      siblings = CpuSet();
      siblings.add(pu);
    }
    seen.add(siblings);
    const int holder = cacheOf(g, cpuFolder, pu, numa, &caches);
    add(g, NodeKind::Core, holder, integer(cat(cpuFolder, "/cpu", pu, "/topology/core_id"), pu), siblings, {});
  }
}

PciInfo pciInfo(const std::string& device) {
  PciInfo pci;
  pci.classCode = integer(device + "/class", -1);
  pci.vendor = integer(device + "/vendor", -1);
  pci.device = integer(device + "/device", -1);
  pci.subsystemVendor = integer(device + "/subsystem_vendor", -1);
  pci.subsystemDevice = integer(device + "/subsystem_device", -1);
  return pci;
}

bool isPciName(const std::string& name) {
  return name.size() >= 12 && name.find(':') != std::string::npos && name.find('.') != std::string::npos &&
         name.find_first_not_of("0123456789abcdef:.") == std::string::npos;
}

/// The PCI functions on the way from the root to this one, itself last: the folders of its real path.
std::vector<std::string> wayTo(const std::string& device) {
  std::error_code error;
  const fs::path real = fs::canonical(device, error);
  std::vector<std::string> way;
  if (error) return way;
  for (const fs::path& part : real) {
    if (isPciName(part.string())) way.push_back(part.string());
  }
  return way;
}

int numaFor(const Graph& g, int number) {
  const std::vector<int> numas = g.all(NodeKind::Numa);
  for (const int numa : numas) {
    if (g.nodes[static_cast<size_t>(numa)].index == number) return numa;
  }
  return numas.front();
}

int addPci(Graph& g, const std::string& folder, const std::string& busId, NodeKind kind, int parent) {
  Node n{.kind = kind, .parent = parent, .busId = canonicalBusId(busId)};
  n.pci = pciInfo(folder + "/" + busId);
  const int node = g.add(std::move(n));
  g.connect({parent, node, LinkKind::Pci, 1, assumedPcieGBps(), true});
  return node;
}

}  // namespace

std::string line(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.pop_back();
  return text;
}

std::vector<std::string> names(const std::string& path) { return namesIn(path).value_or(std::vector<std::string>()); }

Graph processors(const std::string& root) {
  Graph g;
  const CpuInfo cpu = processorInfo(root);
  const std::string cpuFolder = root + "/sys/devices/system/cpu", nodeFolder = root + "/sys/devices/system/node";
  const int host = add(g, NodeKind::Host, -1, -1, {}, {});
  std::map<int, int> packages;
  for (const int number : numbered(nodeFolder, "node")) {
    const CpuSet cpus = cpuList(cat(nodeFolder, "/node", number, "/cpulist"));
    int parent = host;
    if (!cpus.empty()) {
      int first = 0;
      while (!cpus.has(first)) ++first;
      const int package = integer(cat(cpuFolder, "/cpu", first, "/topology/physical_package_id"), -1);
      if (package >= 0 && packages.count(package) == 0)
        packages[package] = add(g, NodeKind::Package, host, package, {}, cpu);
      if (package >= 0) parent = packages[package];
    }
    if (parent != host) g.nodes[static_cast<size_t>(parent)].cpus.add(cpus);
    const int numa = add(g, NodeKind::Numa, parent, number, cpus, cpu);
    g.nodes[static_cast<size_t>(numa)].memoryBytes = nodeMemory(cat(nodeFolder, "/node", number, "/meminfo"));
    addCores(g, cpuFolder, numa);
  }
  if (g.all(NodeKind::Numa).empty()) {
    g.note("the system shows no NUMA nodes: one is taken");
    addCores(g, cpuFolder, add(g, NodeKind::Numa, host, 0, cpuList(cpuFolder + "/online"), cpu));
  }
  return g;
}

void addPciDevices(Graph& g, const std::string& root) {
  const std::string folder = root + "/sys/bus/pci/devices";
  std::map<std::string, int> placed;
  for (const std::string& name : names(folder)) {
    const PciInfo pci = pciInfo(folder + "/" + name);
    const NodeKind kind = kindOfPciClass(pci);
    const bool storageOrDisplay = kind == NodeKind::PciDevice && (pci.classCode >> 16 == 1 || pci.classCode >> 16 == 3);
    if (kind == NodeKind::PciSwitch || (kind == NodeKind::PciDevice && !storageOrDisplay)) continue;
    int parent = numaFor(g, integer(folder + "/" + name + "/numa_node", -1));
    const std::vector<std::string> way = wayTo(folder + "/" + name);
    for (size_t i = 1; i + 1 < way.size(); i += 2) {  // every second bridge is a switch: see hwloc_import.hpp
      const auto known = placed.find(way[i]);
      parent = known != placed.end() ? known->second : addPci(g, folder, way[i], NodeKind::PciSwitch, parent);
      placed[way[i]] = parent;
    }
    placed[name] = addPci(g, folder, name, kind, parent);
  }
}

}  // namespace tutti::topology::sysfs
