#include "src/plan/device_links.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "src/plan/machine_levels.hpp"
#include "src/topology/paths.hpp"

namespace tutti {
namespace {

using topology::Graph;
using topology::Path;
using topology::PathClass;

constexpr double kEndless = std::numeric_limits<double>::infinity();

/// GB/s out of a device over all its NVLinks, to switches and others.
double nvlinkPort(const Graph& graph, int device) {
  double gbps = 0;
  for (const topology::Link& link : graph.links) {
    const bool nvlink = link.kind == topology::LinkKind::NvLink || link.kind == topology::LinkKind::Xgmi;
    if (nvlink && (link.a == device || link.b == device)) gbps += link.gbps;
  }
  return gbps;
}

/// The narrowest of the ways between devices, and of their ports.
void measure(const Graph& graph, const std::vector<int>& devices, DeviceLinks* links) {
  const topology::Paths paths(graph);
  double pair = kEndless, port = kEndless;
  links->nvlink = true;
  for (const int a : devices) {
    double own = nvlinkPort(graph, a);
    for (const int b : devices) {
      if (a == b) continue;
      const Result<Path> path = paths.between(a, b);
      if (!path.ok() || path->type == PathClass::Dis) {
        links->nvlink = false;
        return;
      }
      links->nvlink = links->nvlink && path->type <= PathClass::Nvl;
      pair = std::min(pair, path->gbps);
      own = std::max(own, path->gbps);
    }
    port = std::min(port, own);
  }
  links->pairGBps = pair;
  links->portGBps = port;
}

/// Sockets, if the devices are on several.
void findSockets(const Graph& graph, const std::vector<int>& devices, DeviceLinks* links) {
  std::map<int, int> known;
  for (const int device : links->deviceOf) {
    const int socket = socketOf(graph, devices[static_cast<size_t>(device)]);
    links->socketOf.push_back(known.emplace(socket, static_cast<int>(known.size())).first->second);
  }
  links->socketGBps = socketGBps(graph);
  if (known.size() > 1 && !known.contains(-1) && links->socketGBps > 0) return;
  links->socketOf.clear();
  links->socketGBps = 0;
}

}  // namespace

DeviceLinks deviceLinks(const Graph& graph, std::span<const std::string> busIds) {
  DeviceLinks links;
  std::map<std::string, int> known;
  std::vector<int> devices;
  for (const std::string& busId : busIds) {
    const auto [entry, first] = known.emplace(topology::canonicalBusId(busId), static_cast<int>(known.size()));
    links.deviceOf.push_back(entry->second);
    if (!first) continue;
    for (const int host : graph.all(topology::NodeKind::Host)) {
      const int device = graph.byBusId(busId, host);
      if (device >= 0) devices.push_back(device);
    }
  }
  if (devices.size() == known.size() && devices.size() > 1) {
    measure(graph, devices, &links);
    if (!links.nvlink) findSockets(graph, devices, &links);
  }
  return links;
}

}  // namespace tutti
