// What the planner is told of ranks on CUDA devices, from what all ranks know alike: their descriptors and the machine.
#pragma once

#include <vector>

#include "src/comm/cuda/executor_kind.hpp"
#include "src/comm/machine.hpp"
#include "src/cost/device_costs.hpp"

namespace tutti {

/// Of the slowest device of all.
DeviceFacts deviceFacts(const std::vector<PeerDescriptor>& descriptors);

/// Between all ranks' devices, for Stream and Resident.
DeviceCosts cudaCosts(DeviceExecutor way, const std::vector<PeerDescriptor>& descriptors, const Machines& machine);

/// For Proxy: ranks on the host have a part in it, too.  reach: between whom links are of devices.
DeviceCosts proxyCosts(const std::vector<PeerDescriptor>& descriptors, const DeviceReach& reach,
                       const Machines& machine);

/// Has hierarchical algorithms know the ranks of one device, the smallest groups of `inner` (Shape::inner), where
/// several devices have several ranks each and divide the groups that are there.
void addDeviceGroups(const std::vector<PeerDescriptor>& descriptors, std::vector<std::vector<int>>* inner);

/// The slice of plans of blocks.  Its memory is taken before anybody knows the machine: devices may then be joined by
/// as many NVLinks as there are at most.
size_t blockSliceBytes(const std::vector<PeerDescriptor>& descriptors, uint32_t slots);

}  // namespace tutti
