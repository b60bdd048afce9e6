#include "src/topology/detect.hpp"

#include "src/base/config.hpp"
#include "src/topology/complete.hpp"
#include "src/topology/hwloc_import.hpp"
#include "src/topology/load.hpp"
#include "src/topology/nvidia.hpp"
#include "src/topology/sysfs.hpp"

namespace tutti::topology {

Result<Graph> detect() {
  auto seen = discoverByHwloc();
  Graph graph = seen.ok() ? std::move(*seen) : sysfs::processors("");
  if (!seen.ok()) graph.note(cat("hwloc was not asked: ", seen.status().message()));
  const bool devices =
      !graph.all(NodeKind::Gpu).empty() || !graph.all(NodeKind::Nic).empty() || !graph.all(NodeKind::PciDevice).empty();
  if (!devices) sysfs::addPciDevices(graph, "");
  sysfs::enrich(graph, "");
  addByNvml(graph);
  if (showsNvidia(graph)) addByCuda(graph);
  TUTTI_TRY(complete(graph));
  return graph;
}

Result<Graph> detectBySystem() {
  Graph graph = sysfs::processors("");
  if (graph.all(NodeKind::L3).empty()) graph.note("the system shows no last-level caches within a NUMA node");
  sysfs::addPciDevices(graph, "");
  sysfs::enrich(graph, "");
  if (showsNvidia(graph)) addByNvml(graph);
  TUTTI_TRY(complete(graph));
  return graph;
}

Result<Graph> currentTopology() {
  const std::string file = configText("TUTTI_TOPO_FILE");
  return file.empty() ? detect() : loadTopology(file);
}

}  // namespace tutti::topology
