// Who carries out the calls of a communicator with CUDA ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/comm/cuda/reach.hpp"

namespace tutti {

/// How calls of CUDA ranks are carried out; the same on all of them.
enum class ExecutorKind : uint8_t {
  None,      // no rank is on a CUDA device
  Stream,    // the caller enqueues all of it: all ranks are on CUDA devices of one host
  Resident,  // one kernel for all ranks of a device, in whose blocks nothing waits but for blocks that are there, too
  Proxy,     // a thread of the rank's, and each edge of a plan goes by the link that its two ranks have: any ranks
};

/// Names the kind in sentences.
inline const char* nameOf(ExecutorKind way) {
  switch (way) {
    case ExecutorKind::Stream: return "streams";
    case ExecutorKind::Resident: return "resident kernels";
    case ExecutorKind::Proxy: return "proxies";
    case ExecutorKind::None: break;
  }
  return "nobody";
}

/// Lanes that plans of resident kernels may have: each is a block, and all ranks' blocks must be on their devices
/// together.  0: that cannot be, because a device is shared by processes, or has too few blocks for its ranks.
int residentLanes(const std::vector<PeerDescriptor>& descriptors, size_t sliceBytes, uint32_t slots);
/// Whether all ranks are in one process and on one device: then one launch carries all of them.
bool onOneDevice(const std::vector<PeerDescriptor>& descriptors);
/// Whether TUTTI_CUDA_EXECUTOR asks for the proxy.
bool asksForProxy();
/// Whether there is an executor of this name, whatever the ranks can do.  Errors: InvalidUsage naming
/// TUTTI_CUDA_EXECUTOR.
Status checkExecutorName(const std::string& name);
/// lanes: residentLanes().  obstacle: the same on all ranks; "" if there is none.  Errors: InvalidUsage:
/// TUTTI_CUDA_EXECUTOR cannot be honoured.
Result<ExecutorKind> executorKind(const std::vector<PeerDescriptor>& descriptors, int lanes,
                                  const std::string& obstacle);

/// Lanes that collectives may have on CUDA ranks: as many host endpoints again carry credits.
inline constexpr int kMostCudaLanes = 30;
/// The same where some edges of a plan are between devices and others are not: as many as have room for their slots,
/// which have to be there before streams wait for a proxy.
int lanesOfMixedEdges(const DeviceReach& reach, size_t slotBytes, uint32_t slots);
/// The lane of the host endpoints by which ranks agree on a launch.
inline constexpr int kLaunchLane = 62;

}  // namespace tutti
