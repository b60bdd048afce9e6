#include "src/comm/cuda/costs.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "src/plan/device_links.hpp"
#include "src/topology/rates.hpp"

namespace tutti {
namespace {

constexpr int kMostNvlinks = 18;

std::vector<std::string> busIds(const std::vector<PeerDescriptor>& descriptors) {
  std::vector<std::string> ids;
  for (const PeerDescriptor& descriptor : descriptors) ids.push_back(descriptor.busId);
  return ids;
}

/// By names alone: a device may have several addresses, one for each part.
std::vector<int> devicesOf(const std::vector<PeerDescriptor>& descriptors) {
  std::map<std::string, int> known;
  std::vector<int> devices;
  for (const PeerDescriptor& descriptor : descriptors) {
    devices.push_back(known.emplace(descriptor.device, static_cast<int>(known.size())).first->second);
  }
  return devices;
}

/// Whether links inside all hosts are of devices.
bool reachInsideHosts(const std::vector<PeerDescriptor>& descriptors, const DeviceReach& reach) {
  for (const PeerDescriptor& a : descriptors) {
    for (const PeerDescriptor& b : descriptors) {
      if (a.info.hostId == b.info.hostId && !reach.joins(a.info.rank, b.info.rank)) return false;
    }
  }
  return true;
}

/// The ranks of the host that has most, the first of those.
std::vector<PeerDescriptor> largestHost(const std::vector<PeerDescriptor>& descriptors) {
  std::map<uint64_t, std::vector<PeerDescriptor>> hosts;
  uint64_t largest = descriptors.front().info.hostId;
  for (const PeerDescriptor& descriptor : descriptors) hosts[descriptor.info.hostId].push_back(descriptor);
  for (const PeerDescriptor& descriptor : descriptors) {
    if (hosts[descriptor.info.hostId].size() > hosts[largest].size()) largest = descriptor.info.hostId;
  }
  return hosts[largest];
}

}  // namespace

DeviceFacts deviceFacts(const std::vector<PeerDescriptor>& descriptors) {
  std::optional<DeviceFacts> slowest;
  for (const PeerDescriptor& descriptor : descriptors) {
    if (descriptor.device.empty()) continue;
    const DeviceFacts own{static_cast<int>(descriptor.computeCapability), descriptor.memoryMBps / 1e3};
    slowest = slowest ? slower(*slowest, own) : own;
  }
  return slowest.value_or(DeviceFacts{});
}

DeviceCosts cudaCosts(DeviceExecutor way, const std::vector<PeerDescriptor>& descriptors, const Machines& machine) {
  const std::vector<std::string> ids = busIds(descriptors);
  DeviceLinks links = deviceLinks(machine.graph, ids);
  const std::vector<int> devices = devicesOf(descriptors);
  if (links.deviceOf != devices) links = {.deviceOf = devices};  // parts of one device, which share what it has
  return deviceCosts(way, deviceFacts(descriptors), std::move(links));
}

DeviceCosts proxyCosts(const std::vector<PeerDescriptor>& descriptors, const DeviceReach& reach,
                       const Machines& machine) {
  DeviceCosts costs = deviceCosts(DeviceExecutor::Proxy, deviceFacts(descriptors), {});
  costs.byAdapters = std::ranges::all_of(descriptors, [](const PeerDescriptor& one) { return one.byAdapters != 0; });
  const std::vector<PeerDescriptor> host = largestHost(descriptors);
  if (host.size() > 1 && reachInsideHosts(descriptors, reach))
    costs.insideHost = std::make_shared<DeviceCosts>(cudaCosts(DeviceExecutor::Streams, host, machine));
  return costs;
}

void addDeviceGroups(const std::vector<PeerDescriptor>& descriptors, std::vector<std::vector<int>>* inner) {
  const bool all = std::none_of(descriptors.begin(), descriptors.end(),
                                [](const PeerDescriptor& descriptor) { return descriptor.device.empty(); });
  if (!all) return;
  const std::vector<int> devices = devicesOf(descriptors);
  const auto count = static_cast<size_t>(*std::max_element(devices.begin(), devices.end()) + 1);
  if (count < 2 || count == descriptors.size()) return;
  if (!inner->empty()) {
    std::map<int, int> groupOf;  // of a device
    size_t groups = 0;
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      const int group = inner->back()[rank];
      groups = std::max(groups, static_cast<size_t>(group) + 1);
      if (groupOf.emplace(devices[rank], group).first->second != group) return;
    }
    if (groups == count) return;
  }
  inner->push_back(devices);
}

size_t blockSliceBytes(const std::vector<PeerDescriptor>& descriptors, uint32_t slots) {
  const DeviceFacts facts = deviceFacts(descriptors);
  DeviceLinks links{.deviceOf = devicesOf(descriptors)};
  if (links.nDevices() > 1) {
    links.nvlink = true;
    links.portGBps = kMostNvlinks * topology::nvlinkGBps(facts.computeCapability);
  }
  return deviceSliceBytes(deviceCosts(DeviceExecutor::Blocks, facts, std::move(links)),
                          static_cast<int>(descriptors.size()), slots);
}

}  // namespace tutti
