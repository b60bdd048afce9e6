#include "tools/info/device_plan.hpp"

#include <algorithm>

#include "src/base/config.hpp"
#include "src/plan/device_links.hpp"

namespace tutti {
namespace {

/// What an H200 tells of itself, and how many blocks it has room for: two on each of 132 multiprocessors.
constexpr DeviceFacts kH200{90, 4800};
constexpr int kBlocks = 264, kMostLanes = 64;

}  // namespace

Result<DeviceCosts> devicesOf(const PlanQuestion& q, const std::optional<DescribedJob>& job, int nRanks) {
  DeviceExecutor way{};
  if (!parseDeviceExecutor(q.way, &way)) {
    return invalidUsage("--way ", q.way, ": ranks on CUDA devices go by cuda-blocks, cuda-streams or cuda-proxy");
  }
  const int hosts = job ? job->nHosts : q.hosts;
  if (way == DeviceExecutor::Proxy) return deviceCosts(way, kH200, {});
  if (hosts > 1) return invalidUsage("--way ", q.way, ": between hosts there is cuda-proxy alone");
  if (!job) return deviceCosts(way, kH200, {.deviceOf = std::vector<int>(static_cast<size_t>(nRanks))});
  if (job->busIds.size() != static_cast<size_t>(nRanks))
    return invalidUsage("--way ", q.way, ": ", q.topology, " has no GPUs");
  return deviceCosts(way, {job->computeCapability, 0}, deviceLinks(job->graph, job->busIds));
}

void planFor(const DeviceCosts& costs, PlanRequest* request, MachineLevels* levels) {
  request->device = &costs;
  request->directPossible = costs.way == DeviceExecutor::Blocks && costs.links.nDevices() == 1;
  if (costs.way == DeviceExecutor::Proxy) return;
  const Result<int64_t> slots = configInteger("TUTTI_SLOTS");
  const int nRanks = request->shape.nRanks;
  request->shape.slotBytes = deviceSliceBytes(costs, nRanks, slots.ok() ? static_cast<uint32_t>(*slots) : 4);
  request->links.ranksPerCore = 1;
  *levels = deviceLevels(costs.links);
  request->levels = levels;
  if (costs.way == DeviceExecutor::Blocks) request->mostLanes = std::min(kMostLanes, kBlocks / costs.links.mostRanks());
}

}  // namespace tutti
