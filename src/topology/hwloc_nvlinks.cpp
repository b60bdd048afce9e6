#if TUTTI_HAVE_HWLOC
#include "src/topology/hwloc_nvlinks.hpp"

#include <algorithm>

#include "src/topology/rates.hpp"

namespace tutti::topology {

#if HWLOC_API_VERSION >= 0x00020100
namespace {

/// What hwloc counts for one link in one direction, MB/s, by generation (hwloc/topology-nvml.c).
struct Generation {
  uint64_t mbps;
  int number;
};
constexpr Generation kGenerations[] = {{25000, 2}, {20000, 1}, {26562, 4}, {53125, 5}, {50000, 5}};

/// The generation that all entries are multiples of: of 25 GB/s for 100, which 5 links of 20 GB/s would be, too.
Generation generationOf(const hwloc_distances_s& matrix) {
  for (const Generation& g : kGenerations) {
    bool fits = true;
    for (unsigned i = 0; i < matrix.nbobjs; ++i) {
      for (unsigned j = 0; j < matrix.nbobjs; ++j) {
        fits = fits && (i == j || matrix.values[i * matrix.nbobjs + j] % g.mbps == 0);
      }
    }
    if (fits) return g;
  }
  return {0, 0};
}

/// The node of a GPU's driver is that of its PCI function; a processor (POWER9) stands for its first NUMA node.
int nodeOf(hwloc_obj_t object, const std::map<hwloc_obj_t, int>& nodes, const Graph& graph) {
  if (object == nullptr) return -1;
  auto known = nodes.find(object);
  if (known == nodes.end() && object->type == HWLOC_OBJ_OS_DEVICE) known = nodes.find(object->parent);
  if (known == nodes.end()) return -1;
  if (graph.nodes[static_cast<size_t>(known->second)].kind != NodeKind::Package) return known->second;
  const std::vector<int> numas = graph.children(known->second, NodeKind::Numa);
  return numas.empty() ? -1 : numas.front();
}

void connectAll(const hwloc_distances_s& matrix, const std::map<hwloc_obj_t, int>& nodes, Graph& graph) {
  const Generation generation = generationOf(matrix);
  for (unsigned i = 0; i < matrix.nbobjs; ++i) {
    const int a = nodeOf(matrix.objs[i], nodes, graph);
    if (a >= 0 && graph.nodes[static_cast<size_t>(a)].kind == NodeKind::Gpu) {
      graph.nodes[static_cast<size_t>(a)].gpu.linksTold = true;
    }
    for (unsigned j = i + 1; j < matrix.nbobjs; ++j) {
      const uint64_t mbps = std::max(matrix.values[i * matrix.nbobjs + j], matrix.values[j * matrix.nbobjs + i]);
      const int b = nodeOf(matrix.objs[j], nodes, graph);
      if (mbps == 0 || a < 0 || b < 0 || a == b || graph.linkBetween(a, b, LinkKind::NvLink) >= 0) continue;
      if (mbps > 100'000'000) continue;  // no link of this world
      const int count = generation.mbps > 0 ? static_cast<int>(mbps / generation.mbps) : 1;
      const double gbps = generation.mbps > 0 ? count * nvlinkGBpsOfGeneration(generation.number)
                                              : 0.8 * static_cast<double>(mbps) / 1000;
      graph.connect({std::min(a, b), std::max(a, b), LinkKind::NvLink, count, gbps, false});
    }
  }
}

}  // namespace

void connectNvlinks(hwloc_topology_t topology, const std::map<hwloc_obj_t, int>& nodes, Graph& graph) {
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc().distancesByName == nullptr ||
      hwloc().distancesByName(topology, "NVLinkBandwidth", &count, &matrix, 0) != 0 || count == 0 ||
      matrix == nullptr) {
    return;
  }
  connectAll(*matrix, nodes, graph);
  hwloc().releaseDistances(topology, matrix);
}

#else
void connectNvlinks(hwloc_topology_t, const std::map<hwloc_obj_t, int>&, Graph&) {}
#endif

}  // namespace tutti::topology
#endif
