#include "src/topology/detect.hpp"

#include "src/base/config.hpp"
#include "src/topology/complete.hpp"
#include "src/topology/hwloc_import.hpp"
#include "src/topology/load.hpp"
#include "src/topology/sysfs.hpp"

namespace tutti::topology {

Result<Graph> detect() {
  auto seen = discoverByHwloc();
  Graph graph = seen.ok() ? std::move(*seen) : sysfs::processors("");
  if (!seen.ok()) graph.note(cat("caches are not seen: ", seen.status().message()));
  const bool devices =
      !graph.all(NodeKind::Gpu).empty() || !graph.all(NodeKind::Nic).empty() || !graph.all(NodeKind::PciDevice).empty();
  if (!devices) sysfs::addPciDevices(graph, "");
  sysfs::enrich(graph, "");
  TUTTI_TRY(complete(graph));
  return graph;
}

Result<Graph> currentTopology() {
  const std::string file = configText("TUTTI_TOPO_FILE");
  return file.empty() ? detect() : loadTopology(file);
}

}  // namespace tutti::topology
