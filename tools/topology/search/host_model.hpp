// One host as the search sees it: directed arcs with capacities, and which arcs lie on the way between two devices or
// between a device and a port.  A value; hosts that are alike have equal models and are searched once.
#pragma once

#include <vector>

#include "src/topology/graph.hpp"
#include "src/topology/paths.hpp"

namespace tutti::topology {

/// A way inside the host.
struct Route {
  PathClass type = PathClass::Dis;
  std::vector<int> arcs;
  bool operator==(const Route&) const = default;
};

/// Devices and ports go by their place in the lists that the model was made with.  Every way back is the way there.
struct HostModel {
  std::vector<double> capacity;              // [arc] GB/s.  Arc a and a ^ 1 are the two directions of one link
  std::vector<std::vector<int>> linksOf;     // [arc / 2]: links in the host's own graph; several to NVSwitches as one
  std::vector<std::vector<Route>> between;   // [device][device]
  std::vector<std::vector<Route>> toPort;    // [device][port]
  std::vector<std::vector<Route>> fromPort;  // [port][device]
  std::vector<int> rails;                    // [port]; -1 unknown
  double channelGBps = 0;                    // the most that one channel's share of a device can move

  size_t nDevices() const { return between.size(); }
  size_t nPorts() const { return fromPort.size(); }
};

/// One host of a graph as a graph of its own, with what joins it to other hosts left out.
struct HostPart {
  Graph graph;
  std::vector<int> nodes, links;  // [of the part]: index in the whole
  std::vector<int> devices;       // of the part, as given
  /// Whether both would give the same model: names, bus ids and CPU lists may differ.
  bool alike(const HostPart& other) const;
};

/// All hosts in order; `devices` of the whole graph are handed to their hosts.
std::vector<HostPart> hostParts(const Graph& graph, const std::vector<int>& devices);

/// Ports of the part: what paths to the network end at, in order.
std::vector<int> portsOf(const Graph& part);

HostModel modelOf(const HostPart& part);

/// The most that one channel moves through one device, GB/s: a block of threads that copies and adds keeps up with
/// about 40 on A100, 60 on H100, 90 on B200, which are the highest speeds that NCCL's search tries per channel.
double channelGBpsOf(const Node& device);

}  // namespace tutti::topology
