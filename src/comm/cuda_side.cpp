#include "src/comm/cuda_side.hpp"

#include <time.h>

#include <algorithm>

#include "src/base/log.hpp"

namespace tutti {
namespace {

using namespace tutti::cuda;

// The host channel that carries credits for a lane.  Lanes of collectives are below kMostCudaLanes.
int creditLane(int lane) { return lane == kPointToPointLane ? kMostCudaLanes : kMostCudaLanes + 1 + lane; }
static_assert(kMostCudaLanes + 1 + (kMostCudaLanes - 1) < kPointToPointLane);

// How long streams may take to leave their waits after a failure.
constexpr int kLetGoMs = 5000;
constexpr int64_t kPollNs = 200'000;

void pause() {
  timespec time{0, kPollNs};
  nanosleep(&time, nullptr);
}

}  // namespace

Result<std::unique_ptr<CudaSide>> CudaSide::create(Device ordinal, int nRanks, uint32_t slots) {
  TUTTI_ASSIGN(std::shared_ptr<CudaDevice> device, CudaDevice::open(ordinal));
  TUTTI_ASSIGN(std::shared_ptr<const CudaKernels> kernels, CudaKernels::load(device));
  std::unique_ptr<CudaSide> side(new CudaSide(device, std::move(kernels), slots));
  for (EventHandle* event : {&side->fork_, &side->join_, &side->done_}) TUTTI_TRY(event->create(device));
  const CudaScope scope(*device);
  TUTTI_CUDA(device->driver(), cuStreamCreate(&side->rescue_, kStreamNonBlocking));
  TUTTI_TRY(side->makeWords(nRanks));
  return side;
}

Status CudaSide::makeWords(int nRanks) {
  const size_t channels = static_cast<size_t>(nRanks) * (kMostCudaLanes + 1);
  TUTTI_ASSIGN(DeviceMemory words, DeviceMemory::allocate(device_, channels * InboxLayout{slots_, 0}.wordBytes()));
  TUTTI_TRY(words.zero());
  memory_->words = std::make_shared<DeviceMemory>(std::move(words));
  return {};
}

CudaSide::~CudaSide() {
  const CudaScope scope(*device_);
  memory_.reset();
  if (rescue_ != nullptr) device_->driver().cuStreamDestroy(rescue_);
}

std::string CudaSide::card() const { return device_->uuid(); }

Status CudaSide::meet(int rank, const std::vector<RankCard>& cards) {
  const RankCard& mine = cards[static_cast<size_t>(rank)];
  for (const RankCard& card : cards) {
    if (card.info.hostId != mine.info.hostId) {
      return invalidUsage("ranks ", rank, " and ", card.info.rank,
                          " are on different hosts; CUDA communicators do not reach beyond one host yet");
    }
    if (card.device != mine.device) TUTTI_TRY(reach(card.device));
  }
  return {};
}

/// Has this device use the memory of another one in kernels and copies.
Status CudaSide::reach(const std::string& uuid) {
  int count = 0;
  TUTTI_CUDA(device_->driver(), cuDeviceGetCount(&count));
  for (Device other = 0; other < count; ++other) {
    TUTTI_ASSIGN(std::shared_ptr<CudaDevice> peer, CudaDevice::open(other));
    if (peer->uuid() != uuid) continue;
    int can = 0;
    TUTTI_CUDA(device_->driver(), cuDeviceCanAccessPeer(&can, device_->ordinal(), other));
    if (can == 0) return invalidUsage("CUDA devices ", device_->ordinal(), " and ", other, " have no peer access");
    const CudaScope scope(*device_);
    const Error enabled = device_->driver().cuCtxEnablePeerAccess(peer->context(), 0);
    if (enabled != kErrorPeerAccessAlreadyEnabled) {
      TUTTI_TRY(check(device_->driver(), enabled, "cuCtxEnablePeerAccess"));
    }
    peers_.push_back(std::move(peer));
    return {};
  }
  return invalidUsage("this process does not see the CUDA device of another rank (see CUDA_VISIBLE_DEVICES)");
}

bool CudaSide::capturing(Stream stream) const {
  int status = kCaptureNone;
  return device_->driver().cuStreamIsCapturing(stream, &status) == kSuccess && status != kCaptureNone;
}

// A capture sees only itself: what came before it is its launcher's to order.
Status CudaSide::begin(std::span<const Stream> streams) {
  const Driver& driver = device_->driver();
  const Stream main = streams.front();
  ops_.use(main);
  for (const Stream other : streams.subspan(1)) {
    TUTTI_CUDA(driver, cuEventRecord(fork_.get(), other));
    TUTTI_CUDA(driver, cuStreamWaitEvent(main, fork_.get(), 0));
  }
  if (last_ && *last_ != main && !capturing(main)) TUTTI_CUDA(driver, cuStreamWaitEvent(main, done_.get(), 0));
  return {};
}

Status CudaSide::end(std::span<const Stream> streams) {
  const Driver& driver = device_->driver();
  const Stream main = streams.front();
  if (!capturing(main)) {
    TUTTI_CUDA(driver, cuEventRecord(done_.get(), main));
    last_ = main;
  }
  if (streams.size() > 1) TUTTI_CUDA(driver, cuEventRecord(join_.get(), main));
  for (const Stream other : streams.subspan(1)) TUTTI_CUDA(driver, cuStreamWaitEvent(other, join_.get(), 0));
  return {};
}

Result<Channel*> CudaSide::channel(Links& links, int peer, int lane, size_t slotBytes, Deadline deadline) {
  std::unique_ptr<StreamChannel>& known = memory_->channels[{peer, lane}];
  if (known == nullptr) {
    HostPair hosts;
    TUTTI_ASSIGN(hosts.tokens, links.channel(peer, lane, deadline));
    TUTTI_ASSIGN(hosts.credits, links.channel(peer, creditLane(lane), deadline));
    const InboxLayout layout{slots_, slotBytes};
    const int number = peer * (kMostCudaLanes + 1) + std::min(lane, kMostCudaLanes);
    const InboxWords words{memory_->words, static_cast<size_t>(number) * layout.wordBytes()};
    TUTTI_ASSIGN(known, StreamChannel::create(ops_, hosts, layout, words, processIdentity()));
  }
  return static_cast<Channel*>(known.get());
}

Result<std::byte*> CudaSide::grow(std::vector<DeviceMemory>* memory, size_t bytes) {
  if (bytes == 0) return static_cast<std::byte*>(nullptr);
  if (memory->empty() || memory->back().bytes() < bytes) {
    const size_t before = memory->empty() ? 0 : memory->back().bytes();
    TUTTI_ASSIGN(DeviceMemory more, DeviceMemory::allocate(device_, std::max(bytes, 2 * before)));
    memory->push_back(std::move(more));
  }
  return memory->back().data();
}

bool CudaSide::idle() const {
  if (!last_) return true;
  const CudaScope scope(*device_);
  return device_->driver().cuEventQuery(done_.get()) != kErrorNotReady;
}

bool CudaSide::letGo() {
  const CudaScope scope(*device_);
  const Deadline end = Deadline::inMs(kLetGoMs);
  while (!idle()) {
    if (end.passed()) {
      TUTTI_WARN("cuda", "streams of an aborted communicator are still busy after ", kLetGoMs, " ms");
      return false;
    }
    for (const auto& [key, channel] : memory_->channels) (void)channel->letGo(rescue_);
    pause();
  }
  return true;
}

}  // namespace tutti
