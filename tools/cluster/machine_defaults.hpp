// What a description leaves out and its machine tells: how fast ranks combine, on how many channels and in which
// slices a call keeps the links of a node busy.
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::sim {

struct MachineDefaults {
  double reduceGBps = 0;        // 0: the machine tells nothing
  int channels = 1;             // inside a node, at most
  double sliceBytes = 2 << 20;  // of large calls on those channels
  int inFlight = 1;             // messages to different ranks: all links of a GPU to others are used at once
  bool operator==(const MachineDefaults&) const = default;
};

/// Of the slowest GPU.  Machines without GPUs get what MachineDefaults begins with.
MachineDefaults defaultsOf(const topology::Graph& machine);

/// Out of a GPU: over all its links to others, or its PCIe link where it has none.
double portGBps(const topology::Graph& machine, int gpu);

/// Less of a chunk is not worth a channel: NCCL takes channels away below 512 threads of 64 bytes each
/// (src/enqueue.cc, Simple).
inline constexpr double kLeastOfChannel = 32 * 1024;

}  // namespace tutti::sim
