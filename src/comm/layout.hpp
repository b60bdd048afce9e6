// Where the ranks of a communicator are, and how they meet: found out while they join, the same on all ranks.
#pragma once

#include <vector>

#include "src/comm/cuda/executor_kind.hpp"
#include "src/comm/machine.hpp"
#include "src/comm/slices.hpp"

namespace tutti {

struct RankLayout {
  Machines machine;                     // their hosts as one graph
  std::vector<int> nodes;               // [rank]: its host, numbered by first rank
  std::vector<std::vector<int>> inner;  // groups of ranks inside nodes, the coarsest first; [i][rank]
  std::vector<int> rails;               // [rank]; empty: not several in a node
  ExecutorKind executor{};              // but for None the host's short cuts do not fit all ranks
  DeviceReach reach;                    // between whom links are of devices
  int deviceLanes = 0;                  // that those have where others pass through hosts
  bool oneLaunch = false;               // whether all ranks' kernels are launched as one
  int residentLanes = 0;                // of plans that blocks walk; 0: none are
  size_t sliceBytes = 0;                // the most of one message on any link
  size_t selfSliceBytes = 0;            // the same of a rank's to itself
  SocketSlices socketSlices;            // the same where all links are sockets of one host
  size_t pullBytes = 0;                 // as many as all slots of an endpoint hold: what a peer cannot read is sent

  /// Whether some rank is on a CUDA device.
  bool anyCuda() const { return executor != ExecutorKind::None; }
  /// Whether devices do the work, and hosts only enqueue it.
  bool onDevices() const { return executor == ExecutorKind::Stream || executor == ExecutorKind::Resident; }
  /// Whether some links are of devices, and others pass through hosts.
  bool mixesEdges() const { return executor == ExecutorKind::Proxy && reach.mostPeers() > 0; }
};

}  // namespace tutti
