// A described cluster as NCCL sees it.
#pragma once

#include "src/base/status.hpp"
#include "tools/cluster/network.hpp"
#include "tools/nccl_model/nets.hpp"
#include "tools/nccl_model/parts.hpp"

namespace tutti::nccl_model {

struct Machine {
  const GpuPart* gpu = nullptr;
  const NetPart* net = &netPartOf({});
  int nodes = 1, perNode = 1;
  Hop inside = Hop::NvLink;
  double portGBps = 0;  // out of a GPU, to others of its node
  int nets = 0;         // adapters of a node that its ranks use
  double netGBps = 0;   // of all of them, as far as the fabric lets it through
  double netUs = 0;     // more than NCCL's hop: adapters, and switches beyond the first
  bool nvSwitch = false;
  bool amdCpu = false;

  int ranks() const { return nodes * perNode; }
  /// In tables by nodes.
  size_t column() const { return nodes == 1 ? 0 : nodes == 2 ? 1 : 2; }
  /// What a ring's hops carry, all channels together.
  double ringGBps() const { return nodes == 1 ? portGBps : std::min(portGBps, netGBps); }
};

/// Errors: InvalidArgument where NCCL has nothing to run on (no GPUs, GPUs of AMD, a single rank), or the fabric is
/// none that its model knows (torus, dragonfly).
Result<Machine> machineOf(const sim::Network& network);

}  // namespace tutti::nccl_model
