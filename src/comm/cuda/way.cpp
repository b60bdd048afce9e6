// How calls of CUDA ranks are carried out: by what ranks tell each other of their devices, and by trying it.
#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "src/base/config.hpp"
#include "src/comm/cuda/side.hpp"

namespace tutti {
namespace {

std::string uuidOf(const cuda::Driver& driver, cuda::Device device) {
  cuda::Uuid uuid;
  if (driver.cuDeviceGetUuid(&uuid, device) != cuda::kSuccess) return "";
  return {uuid.bytes, sizeof uuid.bytes};
}

bool reaches(const PeerDescriptor& descriptor, const PeerDescriptor& other) {
  return descriptor.device == other.device ||
         std::find(descriptor.reached.begin(), descriptor.reached.end(), other.device) != descriptor.reached.end();
}

/// A process that is not this rank's, by the lowest of its ranks.
std::vector<const PeerDescriptor*> otherProcesses(const PeerDescriptor& mine,
                                                  const std::vector<PeerDescriptor>& descriptors) {
  std::set<uint64_t> seen = {mine.info.processId};
  std::vector<const PeerDescriptor*> others;
  for (const PeerDescriptor& descriptor : descriptors) {
    if (seen.insert(descriptor.info.processId).second) others.push_back(&descriptor);
  }
  return others;
}

}  // namespace

std::string streamObstacle(const std::vector<PeerDescriptor>& descriptors) {
  for (const PeerDescriptor& descriptor : descriptors) {
    if (descriptor.device.empty()) return cat("rank ", descriptor.info.rank, " is on no CUDA device");
    if (descriptor.info.hostId != descriptors.front().info.hostId)
      return cat("rank ", descriptor.info.rank, " is on another host");
  }
  for (const PeerDescriptor& descriptor : descriptors) {
    for (const PeerDescriptor& other : descriptors) {
      if (reaches(descriptor, other)) continue;
      return cat("rank ", descriptor.info.rank, "'s CUDA device has no peer access to rank ", other.info.rank,
                 "'s, or its process does not see that (CUDA_VISIBLE_DEVICES)");
    }
  }
  return "";
}

bool needsIpc(const std::vector<PeerDescriptor>& descriptors) {
  return !otherProcesses(descriptors.front(), descriptors).empty();
}

bool asksForProxy() { return configText("TUTTI_CUDA_EXECUTOR") == "proxy"; }

Status checkExecutorName(const std::string& name) {
  if (name == "auto" || name == "resident" || name == "stream" || name == "proxy") return {};
  return invalidUsage("TUTTI_CUDA_EXECUTOR='", name, "' is not auto, resident, stream or proxy");
}

Result<CudaWay> cudaWay(const std::vector<PeerDescriptor>& descriptors, int lanes, const std::string& obstacle) {
  const bool any = std::any_of(descriptors.begin(), descriptors.end(),
                               [](const PeerDescriptor& descriptor) { return !descriptor.device.empty(); });
  if (!any) return CudaWay::None;
  if (asksForProxy()) return CudaWay::Proxy;
  const bool streams = obstacle.empty();
  const std::string asked = configText("TUTTI_CUDA_EXECUTOR");
  if ((asked == "stream" || asked == "resident") && !streams) {
    return invalidUsage("TUTTI_CUDA_EXECUTOR=", asked,
                        " needs all ranks on CUDA devices of one host that can use each other's memory: ", obstacle,
                        "; proxy does without");
  }
  if (asked == "resident") {
    if (lanes > 0) return CudaWay::Resident;
    return invalidUsage(
        "TUTTI_CUDA_EXECUTOR=resident needs no device shared by processes, and room for all ranks' blocks on their "
        "devices");
  }
  // Where each rank has a device, launches would wait for launches elsewhere: only on request.
  if (asked == "auto" && streams && lanes > 0 && descriptors.size() > 1 && onOneDevice(descriptors))
    return CudaWay::Resident;
  TUTTI_TRY(checkExecutorName(asked));
  return streams ? CudaWay::Stream : CudaWay::Proxy;
}

void CudaSide::describe(PeerDescriptor* descriptor) const {
  const cuda::Driver& driver = device_->driver();
  descriptor->device = device_->uuid();
  descriptor->busId = device_->busId();
  descriptor->deviceBlocks = kernels_->mostWalkBlocks();
  descriptor->computeCapability = static_cast<uint32_t>(device_->computeCapability());
  descriptor->memoryMBps = static_cast<uint32_t>(device_->memoryGBps() * 1e3);
  int count = 0;
  (void)driver.cuDeviceGetCount(&count);
  for (cuda::Device other = 0; other < count; ++other) {
    int can = 0;
    const bool reached = other != device_->ordinal() &&
                         driver.cuDeviceCanAccessPeer(&can, device_->ordinal(), other) == cuda::kSuccess && can != 0;
    if (reached) descriptor->reached.push_back(uuidOf(driver, other));
  }
  const cuda::IpcOffer offer = cuda::offerByIpc(*device_, memory_->words->address());
  descriptor->ipcProbe.assign(reinterpret_cast<const char*>(&offer), sizeof offer);
}

// Handles may be given and yet not be taken: in containers, say.
Status CudaSide::tryIpc(int rank, const std::vector<PeerDescriptor>& descriptors, Deadline deadline) {
  for (const PeerDescriptor* descriptor : otherProcesses(descriptors[static_cast<size_t>(rank)], descriptors)) {
    cuda::IpcOffer offer;
    if (descriptor->ipcProbe.size() != sizeof offer)
      return remoteError("rank ", descriptor->info.rank, " offers no memory");
    TUTTI_TRY(sit(*descriptor, deadline));
    std::memcpy(&offer, descriptor->ipcProbe.data(), sizeof offer);
    TUTTI_ASSIGN(cuda::IpcMemory opened, cuda::IpcMemory::open(device_, offer));
    memory_->tried.push_back(std::move(opened));
  }
  return {};
}

Status CudaSide::meet(CudaWay way, int rank, const std::vector<PeerDescriptor>& descriptors) {
  const PeerDescriptor& mine = descriptors[static_cast<size_t>(rank)];
  if (way == CudaWay::Proxy) {
    closePeers();  // what was tried
    return startProxy(std::count_if(descriptors.begin(), descriptors.end(), [&](const PeerDescriptor& descriptor) {
                        return shareDevice(descriptor, mine);
                      }) > 1);
  }
  // What other processes have comes with access when it is opened, and their devices may be theirs alone.
  for (const PeerDescriptor& descriptor : descriptors) {
    const bool here = descriptor.info.processId == mine.info.processId;
    if (here && descriptor.device != mine.device) TUTTI_TRY(reach(descriptor.device));
  }
  return {};
}

/// Has this device use the memory of another one in kernels and copies.
Status CudaSide::reach(const std::string& uuid) {
  int count = 0;
  TUTTI_CUDA(device_->driver(), cuDeviceGetCount(&count));
  for (cuda::Device other = 0; other < count; ++other) {
    if (uuidOf(device_->driver(), other) != uuid) continue;
    // Only of those that are needed: a context takes memory on its device, and time to make.
    TUTTI_ASSIGN(std::shared_ptr<cuda::CudaDevice> peer, cuda::CudaDevice::open(other));
    const cuda::CudaScope scope(*device_);
    const cuda::Error enabled = device_->driver().cuCtxEnablePeerAccess(peer->context(), 0);
    if (enabled != cuda::kErrorPeerAccessAlreadyEnabled) {
      TUTTI_TRY(cuda::check(device_->driver(), enabled, "cuCtxEnablePeerAccess"));
    }
    peers_.push_back(std::move(peer));
    return {};
  }
  return internalError("the CUDA device of another rank is not among those that this process sees");
}

}  // namespace tutti
