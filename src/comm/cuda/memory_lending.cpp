#include "src/comm/cuda/memory_lending.hpp"

#include <cstring>

namespace tutti {
namespace {

constexpr const char* kReadersKey = "device readers";

}  // namespace

Status MemoryLending::create() {
  TUTTI_ASSIGN(readers_, cuda::Readers::create());
  return {};
}

Status MemoryLending::serve(FdExchange& services) {
  TUTTI_TRY(services.serve(kReadersKey, readers_->descriptor()));
  services_ = &services;
  return {};
}

Result<bool> MemoryLending::beginReading(const PeerDescriptor& peer) {
  if (peer.info.processId == processIdentity() || reading_.contains(peer.info.rank)) return true;
  PendingFd& begun = readingBegun_[peer.info.rank];
  if (begun == nullptr) begun = services_->fetch(peer.info.rank, kReadersKey);
  TUTTI_ASSIGN(Fd descriptor, begun->poll());
  if (!descriptor.valid()) return false;
  readingBegun_.erase(peer.info.rank);
  TUTTI_ASSIGN(cuda::Reading reading, cuda::Reading::of(std::move(descriptor)));
  TUTTI_TRY(reading.begin(rank_));
  reading_.emplace(peer.info.rank, std::move(reading));
  return true;
}

Status MemoryLending::awaitReading(const PeerDescriptor& peer, Deadline deadline) {
  const std::string what = cat("device memory of rank ", peer.info.rank);
  return asStatus(awaitValue([&] { return beginReading(peer); }, deadline, what));
}

Status MemoryLending::open(const PeerDescriptor& owner, const std::string& offered, Deadline deadline) {
  cuda::IpcOffer offer;
  if (offered.size() != sizeof offer)
    return remoteError(ErrorCode::PeerMemoryGone, "rank ", owner.info.rank, " offers no memory");
  std::memcpy(&offer, offered.data(), sizeof offer);
  TUTTI_TRY(awaitReading(owner, deadline));
  TUTTI_ASSIGN(cuda::IpcMemory opened, cuda::IpcMemory::open(device_, offer));
  opened_.push_back(std::move(opened));
  return {};
}

void MemoryLending::lendOver(std::function<bool()> settle) {
  exchange_ = std::make_unique<cuda::MemoryExchange>(
      device_, cuda::ExchangeRank{*services_, rank_, processIdentity(), std::move(settle)});
}

Status MemoryLending::lend(uint64_t key, const void* buffer, size_t bytes) {
  return exchange_ == nullptr ? Status() : asStatus(exchange_->lend(key, buffer, bytes));
}

void MemoryLending::end(uint64_t key, bool failed) {
  if (exchange_ == nullptr) return;
  exchange_->end(key, failed ? cuda::MemoryEnd::Failed : cuda::MemoryEnd::Idle);
  exchange_->closeEnded();
}

// Their processes have been called, and close it whatever their callers do.
Status MemoryLending::awaitReaders(uint64_t key, Deadline deadline, const std::function<bool()>& failed) const {
  const Deadline afterFailure = Deadline::inMs(kReadersAfterFailureMs);
  while (const std::optional<int> reader = exchange_ != nullptr ? exchange_->reader(key) : std::nullopt) {
    if (deadline.passed() || (failed() && afterFailure.passed())) {
      return timeoutError(ErrorCode::MemoryStillOpen, "rank ", *reader,
                          " still has the registered memory open, so it must not be freed yet; call "
                          "again to wait for that rank, or free the memory when it has ended");
    }
    cuda::pauseBetweenLooks();
  }
  return {};
}

void MemoryLending::closePeers() {
  if (exchange_ != nullptr) exchange_->closeAll();
  opened_.clear();
  reading_.clear();
}

void MemoryLending::stop() {
  if (exchange_ != nullptr) exchange_->stop();
}

void MemoryLending::retire() {
  if (exchange_ != nullptr) exchange_->retire();
  readingBegun_.clear();
  services_ = nullptr;
}

}  // namespace tutti
