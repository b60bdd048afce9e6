#include "src/comm/cuda/executor_kind.hpp"

#include <algorithm>

#include "src/base/config.hpp"
#include "src/cost/device_costs.hpp"

namespace tutti {

bool asksForProxy() { return configText("TUTTI_CUDA_EXECUTOR") == "proxy"; }

Status checkExecutorName(const std::string& name) {
  if (name == "auto" || name == "resident" || name == "stream" || name == "proxy") return {};
  return invalidUsage(ErrorCode::VariableValue, "TUTTI_CUDA_EXECUTOR='", name,
                      "' is not auto, resident, stream or proxy");
}

Result<ExecutorKind> executorKind(const std::vector<PeerDescriptor>& descriptors, int lanes,
                                  const std::string& obstacle) {
  const bool any = std::any_of(descriptors.begin(), descriptors.end(),
                               [](const PeerDescriptor& descriptor) { return !descriptor.device.empty(); });
  if (!any) return ExecutorKind::None;
  if (asksForProxy()) return ExecutorKind::Proxy;
  const bool streams = obstacle.empty();
  const std::string asked = configText("TUTTI_CUDA_EXECUTOR");
  if ((asked == "stream" || asked == "resident") && !streams) {
    return invalidUsage(ErrorCode::ExecutorImpossible, "TUTTI_CUDA_EXECUTOR=", asked,
                        " needs all ranks on CUDA devices of one host that can use each other's memory: ", obstacle,
                        "; proxy does without");
  }
  if (asked == "resident") {
    if (lanes > 0) return ExecutorKind::Resident;
    return invalidUsage(
        ErrorCode::ExecutorImpossible,
        "TUTTI_CUDA_EXECUTOR=resident needs no device shared by processes, and room for all ranks' blocks on their "
        "devices");
  }
  // Where each rank has a device, launches would wait for launches elsewhere: only on request.
  if (asked == "auto" && streams && lanes > 0 && descriptors.size() > 1 && onOneDevice(descriptors))
    return ExecutorKind::Resident;
  TUTTI_TRY(checkExecutorName(asked));
  return streams ? ExecutorKind::Stream : ExecutorKind::Proxy;
}

int lanesOfMixedEdges(const DeviceReach& reach, size_t slotBytes, uint32_t slots) {
  constexpr int kLeastLanes = 2;
  const size_t laneBytes = static_cast<size_t>(reach.mostPeers() + 1) * slots * slotBytes;
  const int lanes = static_cast<int>(std::min<size_t>(kMostCudaLanes + 1, kMostEndBytes / laneBytes)) - 1;
  return std::clamp(lanes, kLeastLanes, kMostCudaLanes);
}

}  // namespace tutti
