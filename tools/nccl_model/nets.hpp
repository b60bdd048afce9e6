// Adapters, and what their plugin has NCCL do.  One constant, one source; docs/simulation.md has the table.
#pragma once

#include <span>
#include <string_view>

#include "tools/nccl_model/parts.hpp"

namespace tutti::nccl_model {

/// A region of a plugin's tuner ends at so many bytes, for so many ranks.
struct RegionEnd {
  double ranks, bytes;
};

/// What a plugin's tuner chooses for allreduces of eight GPUs a node, up to `ends` (none: up to any size).
struct Region {
  Way way;
  Protocol protocol;
  std::span<const RegionEnd> ends;  // by ranks; straight lines in both logarithms between them
  int mostNodes = 1 << 30;
};

/// A kind of adapter, with what NCCL does by it.
struct NetPart {
  std::string_view name;
  int vendor = -1, device = -1;  // PCI; -1: any
  double toldUs = 0;             // of a message, as the plugin tells NCCL, which chooses by it; 0: as it is
  bool keepsLines = true;        // 128 bytes arrive together: LL and LL128 may go by it
  /// Larger messages are announced first; 0: none are.
  double packetBytes = 0;
  double asksEach = 0, asksFirst = 0;  // crossings that this takes: of every hop, of a call's first one
  double bufferBytes = 4 << 20;        // of a connection by Simple
  double switchChunk = 0;              // the most of a reduction in NVLink's switches; 0: NCCL's own
  std::span<const Region> tuner;       // by sizes; empty: NCCL chooses
};

/// By its PCI device; others are as InfiniBand's.
const NetPart& netPartOf(const topology::PciInfo& pci);
/// What the plugin's tuner takes for an allreduce of eight GPUs a node; nullptr: it leaves the choice to NCCL.
const Region* regionOf(const NetPart& net, int nodes, double bytes);

}  // namespace tutti::nccl_model
