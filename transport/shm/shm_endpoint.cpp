#include "transport/shm/shm_endpoint.hpp"

#include <ctime>
#include <utility>

namespace tutti::shm {

std::byte* StagingBuffer::atLeast(size_t bytes) {
  if (bytes > bytes_) {
    std::free(data_);
    bytes_ = roundToPages(bytes);
    data_ = static_cast<std::byte*>(std::aligned_alloc(4096, bytes_));
    if (data_ == nullptr) bytes_ = 0;
  }
  return data_;
}

ShmEndpoint::ShmEndpoint(EndpointEnds ends)
    : ends_(std::move(ends)),
      slotBytes_(ends_.mine->layout().slotBytes),
      slots_(ends_.mine->layout().slots),
      lines_(ends_.mine->layout().lines),
      creditBatch_(ends_.mine->layout().creditBatch()),
      sharedCores_(ends_.mine->layout().sharedCores()),
      mostHotBytes_(ends_.mine->layout().mostHotBytes()),
      in_(ends_.mine->inbox(ends_.peer, ends_.lane)),
      out_(ends_.theirs->inbox(ends_.rank, ends_.lane)),
      peerBell_(ends_.theirs->bell()),
      lastInSlot_(slots_) {
  in_.head().canPull.store(ends_.canPull ? 1 : 0, std::memory_order_relaxed);
}

ShmEndpoint::~ShmEndpoint() {
  unclaim();
  ShmEndpoint::cancel();
}

Status ShmEndpoint::fail(Status why) {
  if (failure_.ok()) failure_ = std::move(why);
  return failure_;
}

// The reader says "I read" and then looks whether the offers still stand; the owner takes the offers back and then
// looks whether somebody reads.  All four accesses are seq_cst, so that there is one order of them: whoever comes
// second sees the first, and it cannot be that the reader reads while the owner believes that nobody does.
void ShmEndpoint::cancel() {
  Endpoint::cancel();
  unclaim();
  out_.head().revoked.store(1, std::memory_order_seq_cst);  // partner: claim()
  if (!ends_.sameProcess) return;  // readers of other processes read through mappings or the kernel, never through ours
  for (int tries = 0; out_.head().claim.load(std::memory_order_seq_cst) != 0; ++tries) {
    const timespec pause{0, tries < 100 ? 0 : 50'000};
    nanosleep(&pause, nullptr);
  }
}

bool ShmEndpoint::claim() {
  in_.head().claim.store(received_ + 1, std::memory_order_seq_cst);  // partner: cancel()
  claimed_ = true;
  if (in_.head().revoked.load(std::memory_order_seq_cst) == 0) [[likely]]
    return true;
  unclaim();
  return false;
}

void ShmEndpoint::unclaim() {
  if (!claimed_) return;
  claimed_ = false;
  in_.head().claim.store(0, std::memory_order_release);  // partner: cancel(); our reads are done before it sees 0
}

std::optional<Fingerprint> ShmEndpoint::pending() const {
  const uint64_t next = asked_.load(std::memory_order_relaxed) + 1;
  const ControlLine& line = in_.line(next - 1);
  const uint64_t word = line.sequence.load(std::memory_order_acquire);  // partner: post()
  if (static_cast<uint32_t>(word) != static_cast<uint32_t>(next)) return std::nullopt;
  const Fingerprint call{line.callHead.load(std::memory_order_relaxed), line.callCount.load(std::memory_order_relaxed)};
  if (asked_.load(std::memory_order_acquire) + 1 != next) return std::nullopt;  // taken meanwhile: not pending
  return call;
}

}  // namespace tutti::shm
