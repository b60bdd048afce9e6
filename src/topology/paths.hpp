// How devices reach each other: the class of the best way, what it carries, and the way itself.
//
// A device is a GPU, a port of a NIC (or a NIC whose ports the description leaves out) or a NUMA node, which is host
// memory.  Ways lead over links; no way leads through a
// NIC or, but for one hop over NVLink or xGMI, through a GPU.  Of all ways the one of the best class is taken, of these
// the shortest, of these the widest.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// Best first; the names are those that NCCL's users know.
enum class PathClass {
  Loc,  // the same device
  Nvl,  // NVLink or xGMI, directly or through NVSwitches
  Nvb,  // NVLink or xGMI through another GPU
  C2c,  // NVLink-C2C between GPU and its processor
  Pix,  // at most one PCIe switch
  Pxb,  // several PCIe switches, not the processor
  P2c,  // GPU to NIC: C2C to the processor, PCIe from there
  Pxn,  // GPU to NIC: NVLink to a GPU that is near the NIC
  Phb,  // through the processor's own PCIe bridge
  Sys,  // between NUMA nodes
  Net,  // over the network
  Dis,  // no way
};
const char* className(PathClass c);  // "LOC", "NVL", ...

struct Path {
  PathClass type = PathClass::Dis;
  double gbps = 0;         // of the narrowest link; 0 if there is no way; infinite within a device
  std::vector<int> nodes;  // from the one end to the other; without the network's inside
  int hops() const { return static_cast<int>(nodes.size()) - 1; }
};

/// All ways from some devices to all others.  A value; holds no reference to the graph.
class Paths {
 public:
  /// Paths between all devices of each host.  Cost: devices x links of a host.
  explicit Paths(const Graph& graph);

  /// Between two devices of one host or of several.  Between hosts: by the ports that are best for each end, and on the
  /// same rail if the two hosts number them.
  /// Errors: InvalidArgument if one of them is not a node that paths begin at.
  Result<Path> between(int a, int b) const;

  /// The ports of the host of a GPU or NUMA node, best first for this device: class, then bandwidth, then the one that
  /// fewer other devices of its kind are equally close to (which spreads GPUs over rails), then order.
  std::vector<int> netsOf(int device) const;

 private:
  struct Host {
    std::vector<int> devices;              // of the graph, in order
    std::vector<std::vector<Path>> paths;  // [i][j] between devices[i] and devices[j]
  };
  const Path& inside(const Host& host, int a, int b) const;
  Path overNetwork(int a, int b) const;
  void usePeers(const Graph& graph, Host& host);
  void spreadNets(const Graph& graph, Host& host);

  std::vector<Host> hosts_;
  std::vector<int> hostOf_;             // [node]: index into hosts_, -1 for none
  std::vector<int> deviceOf_;           // [node]: index into Host::devices, -1 if paths do not begin there
  std::vector<std::vector<int>> nets_;  // [node]: see netsOf
  std::vector<int> railOf_;             // [node]
  std::vector<bool> isPort_;            // [node]
};

/// A table of classes and one of bandwidths between all GPUs and ports of a host.
std::string pathTable(const Graph& graph, const Paths& paths);

}  // namespace tutti::topology
