// Adapters, and what their plugin has NCCL do.  One constant, one source; docs/simulation.md has the table.
#pragma once

#include <span>
#include <string_view>

#include "src/topology/graph.hpp"

namespace tutti::nccl_model {

/// Up to so many bytes, calls of so many ranks take trees by LL128.
struct TreesUntil {
  double ranks, bytes;
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
  std::span<const TreesUntil> tuner;   // by numbers of ranks, eight a node; empty: NCCL chooses
};

/// By its PCI device; others are as InfiniBand's.
const NetPart& netPartOf(const topology::PciInfo& pci);
/// The largest call, in bytes, for which the plugin has `ranks` take trees by LL128; 0: it does not choose.
double treesUntil(const NetPart& net, int ranks);

}  // namespace tutti::nccl_model
