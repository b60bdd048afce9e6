// How calls of CUDA ranks are carried out: by what ranks tell each other of their devices, and by trying it.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "src/base/config.hpp"
#include "src/comm/cuda/executor.hpp"

namespace tutti {
namespace {

std::string uuidOf(const cuda::Driver& driver, cuda::Device device) {
  cuda::Uuid uuid;
  if (driver.cuDeviceGetUuid(&uuid, device) != cuda::kSuccess) return "";
  return {uuid.bytes, sizeof uuid.bytes};
}

}  // namespace

bool asksForProxy() { return configText("TUTTI_CUDA_EXECUTOR") == "proxy"; }

Status checkExecutorName(const std::string& name) {
  if (name == "auto" || name == "resident" || name == "stream" || name == "proxy") return {};
  return invalidUsage("TUTTI_CUDA_EXECUTOR='", name, "' is not auto, resident, stream or proxy");
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
    return invalidUsage("TUTTI_CUDA_EXECUTOR=", asked,
                        " needs all ranks on CUDA devices of one host that can use each other's memory: ", obstacle,
                        "; proxy does without");
  }
  if (asked == "resident") {
    if (lanes > 0) return ExecutorKind::Resident;
    return invalidUsage(
        "TUTTI_CUDA_EXECUTOR=resident needs no device shared by processes, and room for all ranks' blocks on their "
        "devices");
  }
  // Where each rank has a device, launches would wait for launches elsewhere: only on request.
  if (asked == "auto" && streams && lanes > 0 && descriptors.size() > 1 && onOneDevice(descriptors))
    return ExecutorKind::Resident;
  TUTTI_TRY(checkExecutorName(asked));
  return streams ? ExecutorKind::Stream : ExecutorKind::Proxy;
}

void CudaExecutor::describe(PeerDescriptor* descriptor) const {
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
Refusals CudaExecutor::tryIpc(const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors,
                              Deadline deadline) {
  Refusals refusals;
  for (const int rank : processesToTry(reach, descriptors, rank_)) {
    const PeerDescriptor& descriptor = descriptors[static_cast<size_t>(rank)];
    const Status opened = open(descriptor, descriptor.ipcProbe, deadline);
    if (!opened.ok()) refusals.emplace_back(rank, opened.message());
  }
  return refusals;
}

/// Opens what a rank of another process offers, and keeps it open.
Status CudaExecutor::open(const PeerDescriptor& owner, const std::string& offered, Deadline deadline) {
  cuda::IpcOffer offer;
  if (offered.size() != sizeof offer) return remoteError("rank ", owner.info.rank, " offers no memory");
  std::memcpy(&offer, offered.data(), sizeof offer);
  TUTTI_TRY(awaitReading(owner, deadline));
  TUTTI_ASSIGN(cuda::IpcMemory opened, cuda::IpcMemory::open(device_, offer));
  memory_->tried.push_back(std::move(opened));
  return {};
}

Status CudaExecutor::meet(ExecutorKind kind, const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors) {
  const PeerDescriptor& mine = descriptors[static_cast<size_t>(rank_)];
  reach_ = reach;
  if (kind == ExecutorKind::Proxy) {
    const auto sharers =
        std::ranges::count_if(descriptors, [&](const auto& other) { return shareDevice(other, mine); });
    TUTTI_ASSIGN(proxy_, CudaProxy::create(ops_, gate(), replayed(), sharers > 1));
    if (placeOf(reach.nRanks()) < 2) closePeers();  // what was tried
  }
  // What other processes have comes with access when it is opened, and their devices may be theirs alone.
  for (const PeerDescriptor& descriptor : descriptors) {
    const bool here = descriptor.info.processId == mine.info.processId && reach_.joins(rank_, descriptor.info.rank);
    if (here && descriptor.device != mine.device) TUTTI_TRY(use(descriptor.device));
  }
  return {};
}

Status CudaExecutor::makeSlots(int lanes, size_t slotBytes, PeerDescriptor* descriptor) {
  lanes_ = lanes;
  const cuda::InboxLayout layout{slots_, slotBytes};
  const size_t peers = static_cast<size_t>(placeOf(reach_.nRanks()));
  const size_t bytes = peers * static_cast<size_t>(lanes + 1) * layout.slotBytesOfAll();
  TUTTI_ASSIGN(cuda::OfferedMemory memory, cuda::OfferedMemory::allocate(device_, bytes, readers_));
  const cuda::IpcOffer offer = cuda::offerByIpc(*device_, memory.address());
  memory_->slots = std::make_shared<cuda::OfferedMemory>(std::move(memory));
  descriptor->ends.assign(reinterpret_cast<const char*>(&offer), sizeof offer);
  return {};
}

Status CudaExecutor::openSlots(const std::vector<PeerDescriptor>& descriptors, Deadline deadline) {
  const uint64_t process = descriptors[static_cast<size_t>(rank_)].info.processId;
  for (const PeerDescriptor& peer : descriptors) {
    if (peer.info.processId == process || !reach_.joins(rank_, peer.info.rank)) continue;
    TUTTI_TRY(open(peer, peer.ipcProbe, deadline));  // its words
    TUTTI_TRY(open(peer, peer.ends, deadline));
  }
  return {};
}

/// Has this device use the memory of another one in kernels and copies.
Status CudaExecutor::use(const std::string& uuid) {
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
