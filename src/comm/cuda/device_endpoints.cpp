#include "src/comm/cuda/device_endpoints.hpp"

#include <algorithm>

namespace tutti {
namespace {

// The host endpoint that carries credits for a lane.  Lanes of collectives are below kMostCudaLanes.
int creditLane(int lane) { return lane == kPointToPointLane ? kMostCudaLanes : kMostCudaLanes + 1 + lane; }
static_assert(kMostCudaLanes + 1 + (kMostCudaLanes - 1) < kLaunchLane && kLaunchLane < kPointToPointLane);

std::string uuidOf(const cuda::Driver& driver, cuda::Device device) {
  cuda::Uuid uuid;
  if (driver.cuDeviceGetUuid(&uuid, device) != cuda::kSuccess) return "";
  return {uuid.bytes, sizeof uuid.bytes};
}

}  // namespace

Status DeviceEndpoints::makeWords(int nRanks, cuda::Stream stream) {
  const size_t endpoints = static_cast<size_t>(nRanks) * (kMostCudaLanes + 1);
  const size_t bytes = endpoints * cuda::InboxLayout{slotsOfOne_, 0}.wordBytes() + 2 * cuda::InboxLayout::kWordStride;
  cuda::OfferedMemory::sweep();
  // Where only proxies will be, no other process opens them, and streams may wait for proxies already: those of ranks
  // that share the device, and are in a call that this one has yet to come to.
  TUTTI_ASSIGN(cuda::OfferedMemory words, asksForProxy()
                                              ? cuda::OfferedMemory::allocateOn(stream, device_, bytes)
                                              : cuda::OfferedMemory::allocate(device_, bytes, lending_.readers()));
  TUTTI_CUDA(device_->driver(), cuStreamSynchronize(stream));  // nothing else is on it yet
  TUTTI_TRY(words.zero());
  words_ = std::make_shared<cuda::OfferedMemory>(std::move(words));
  return {};
}

// After the words of all endpoints.
cuda::Address DeviceEndpoints::gate() const { return replayed() - cuda::InboxLayout::kWordStride; }
cuda::Address DeviceEndpoints::replayed() const {
  return words_->address() + words_->bytes() - cuda::InboxLayout::kWordStride;
}

void DeviceEndpoints::describe(PeerDescriptor* descriptor) const {
  const cuda::Driver& driver = device_->driver();
  int count = 0;
  (void)driver.cuDeviceGetCount(&count);
  for (cuda::Device other = 0; other < count; ++other) {
    int can = 0;
    const bool reached = other != device_->ordinal() &&
                         driver.cuDeviceCanAccessPeer(&can, device_->ordinal(), other) == cuda::kSuccess && can != 0;
    if (reached) descriptor->reached.push_back(uuidOf(driver, other));
  }
  const cuda::IpcOffer offer = cuda::offerByIpc(*device_, words_->address());
  descriptor->ipcProbe.assign(reinterpret_cast<const char*>(&offer), sizeof offer);
}

Status DeviceEndpoints::meet(const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors) {
  const PeerDescriptor& mine = descriptors[static_cast<size_t>(rank_)];
  reach_ = reach;
  // What other processes have comes with access when it is opened, and their devices may be theirs alone.
  for (const PeerDescriptor& descriptor : descriptors) {
    const bool here = descriptor.info.processId == mine.info.processId && reach_.joins(rank_, descriptor.info.rank);
    if (here && descriptor.device != mine.device) TUTTI_TRY(use(descriptor.device));
  }
  return {};
}

/// Has this device use the memory of another one in kernels and copies.
Status DeviceEndpoints::use(const std::string& uuid) {
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
  return internalError(ErrorCode::DeviceNotVisible,
                       "the CUDA device of another rank is not among those that this process sees");
}

Status DeviceEndpoints::makeSlots(int lanes, size_t slotBytes, PeerDescriptor* descriptor) {
  lanes_ = lanes;
  const cuda::InboxLayout layout{slotsOfOne_, slotBytes};
  const size_t peers = static_cast<size_t>(placeOf(reach_.nRanks()));
  const size_t bytes = peers * static_cast<size_t>(lanes + 1) * layout.slotBytesOfAll();
  TUTTI_ASSIGN(cuda::OfferedMemory memory, cuda::OfferedMemory::allocate(device_, bytes, lending_.readers()));
  const cuda::IpcOffer offer = cuda::offerByIpc(*device_, memory.address());
  slots_ = std::make_shared<cuda::OfferedMemory>(std::move(memory));
  descriptor->ends.assign(reinterpret_cast<const char*>(&offer), sizeof offer);
  return {};
}

Status DeviceEndpoints::openSlots(const std::vector<PeerDescriptor>& descriptors, Deadline deadline) {
  const uint64_t process = descriptors[static_cast<size_t>(rank_)].info.processId;
  for (const PeerDescriptor& peer : descriptors) {
    if (peer.info.processId == process || !reach_.joins(rank_, peer.info.rank)) continue;
    TUTTI_TRY(lending_.open(peer, peer.ipcProbe, deadline));  // its words
    TUTTI_TRY(lending_.open(peer, peer.ends, deadline));
  }
  return {};
}

/// How many of the ranks that this one reaches, of which it is one, come before `peer`.
int DeviceEndpoints::placeOf(int peer) const {
  int place = 0;
  for (int other = 0; other < peer; ++other) place += reach_.joins(rank_, other) ? 1 : 0;
  return place;
}

Result<Endpoint*> DeviceEndpoints::endpoint(Links& links, int peer, int lane, size_t slotBytes) {
  return reach_.joins(rank_, peer) ? streamEndpoint(links, peer, lane, slotBytes) : stagedEndpoint(links, peer, lane);
}

static cuda::StagedEndpoint::Staging stagingOn(const LinkProfile& link) {
  using Staging = cuda::StagedEndpoint::Staging;
  if (!link.memory.has(MemoryKind::Device)) return Staging::Pinned;
  return link.registers ? Staging::Adapter : Staging::None;
}

// Later, streams of ranks that share the device may wait for calls of this one.
void DeviceEndpoints::makeAdapterSlots(const Links& links, const std::vector<PeerDescriptor>& descriptors,
                                       size_t slotBytes) {
  constexpr size_t kSlotsOfOne = 3, kFirstLanes = 2, kMostAtFirst = 96;
  size_t peers = 0;
  for (const PeerDescriptor& peer : descriptors) {
    const bool apart = peer.info.rank != rank_ && !reach_.joins(rank_, peer.info.rank);
    if (apart && links.mayGiveDeviceMemory(descriptors[static_cast<size_t>(rank_)].info, peer.info)) ++peers;
  }
  if (peers == 0) return;
  slotsOfAdapters_.make(slotBytes, [&links](const Memory& memory) { return links.registerDeviceMemory(memory); });
  slotsOfAdapters_.want(std::min(peers * kFirstLanes * kSlotsOfOne, kMostAtFirst));
  slotsOfAdapters_.fill(device_);
}

void DeviceEndpoints::leaveAdapters() {
  for (const auto& [key, endpoint] : staged_)
    if (endpoint != nullptr) endpoint->leave();
}

Result<Endpoint*> DeviceEndpoints::stagedEndpoint(Links& links, int peer, int lane) {
  std::unique_ptr<cuda::StagedEndpoint>& known = staged_[{peer, lane}];
  if (known == nullptr) {
    TUTTI_ASSIGN(Endpoint * host, links.endpoint(peer, lane));
    if (host == nullptr) return host;
    const LinkProfile& link = links.linkTo(peer);
    const cuda::StagedEndpoint::Adapter adapter{&slotsOfAdapters_, link.flushes};
    known = std::make_unique<cuda::StagedEndpoint>(ops_, host, &reserve_, stagingOn(link), adapter);
  }
  return static_cast<Endpoint*>(known.get());
}

Result<Endpoint*> DeviceEndpoints::streamEndpoint(Links& links, int peer, int lane, size_t slotBytes) {
  std::unique_ptr<cuda::StreamEndpoint>& known = streamed_[{peer, lane}];
  if (known != nullptr) return static_cast<Endpoint*>(known.get());
  cuda::HostPair hosts;
  TUTTI_ASSIGN(hosts.tokens, links.endpoint(peer, lane));
  TUTTI_ASSIGN(hosts.credits, links.endpoint(peer, creditLane(lane)));
  const PeerDescriptor& descriptor = links.descriptors()[static_cast<size_t>(peer)];
  TUTTI_ASSIGN(const bool reading, lending_.beginReading(descriptor));
  if (!reading || hosts.tokens == nullptr || hosts.credits == nullptr) return static_cast<Endpoint*>(nullptr);
  const cuda::InboxLayout layout{slotsOfOne_, slotBytes};
  const auto number = [](int place, int lanes, int of) {
    return static_cast<size_t>(place * (lanes + 1) + std::min(of, lanes));
  };
  const cuda::InboxRoom words{words_, number(peer, kMostCudaLanes, lane) * layout.wordBytes()};
  cuda::InboxRoom slots{slots_, 0};
  if (slots.memory != nullptr) slots.offset = number(placeOf(peer), lanes_, lane) * layout.slotBytesOfAll();
  const bool here = shareDevice(descriptor, links.descriptors()[static_cast<size_t>(rank_)]);
  const cuda::Lending lending{lending_.exchange(), peer, descriptor.info.processId, here};
  TUTTI_ASSIGN(known, cuda::StreamEndpoint::create(ops_, hosts, lending, layout, words, slots, processIdentity()));
  return static_cast<Endpoint*>(known.get());
}

DeviceEndpoints::Traffic DeviceEndpoints::sentTo(int peer) const {
  Traffic sent;
  for (const auto& [key, endpoint] : streamed_) sent.byDevice += key.first == peer ? endpoint->sentBytes() : 0;
  for (const auto& [key, endpoint] : staged_) {
    if (key.first != peer || endpoint == nullptr) continue;
    sent.throughHost += endpoint->sentBytes();
    sent.byAdapter += endpoint->sentByAdapter();
    sent.receivedThroughHost += endpoint->receivedStaged();
  }
  return sent;
}

bool DeviceEndpoints::hasLeft() const {
  return std::ranges::all_of(staged_, [](const auto& one) { return one.second == nullptr || one.second->hasLeft(); });
}

// Without other ranks on the device nothing that is waited for needs this thread.
void DeviceEndpoints::fillReserve(DeviceGates* gates) {
  const auto fill = [this] {
    reserve_.fill(device_);
    slotsOfAdapters_.fill(device_);
  };
  if (gates == nullptr) return fill();
  if (reserve_.wants() || slotsOfAdapters_.wants()) gates->tryRun(fill);
}

void DeviceEndpoints::letGo(cuda::Stream rescue) const {
  for (const auto& [key, endpoint] : streamed_) (void)endpoint->letGo(rescue);
}

void DeviceEndpoints::closePeers() {
  for (const auto& [key, endpoint] : streamed_) endpoint->closePeer();
}

}  // namespace tutti
