#include "transport/shm/outbox.hpp"

#include <algorithm>
#include <utility>

#include "src/base/assert.hpp"
#include "transport/shm/shm_endpoint.hpp"

namespace tutti::shm {
namespace {

// Entries of readers that are done are dropped in batches of at least this many.
constexpr size_t kLeastDropped = 256;
// The ring starts over when so much of it is in use, or as many messages as an endpoint has slots for and one more:
// what has been used lately is in the caches.
constexpr size_t kWindowBytes = 16 * 1024;

}  // namespace

ShmOutbox::ShmOutbox(std::shared_ptr<Segment> mine, int lane)
    : mine_(std::move(mine)), lane_(lane), ringBytes_(mine_->layout().outboxBytes()) {
  // No reader has more messages under way than lines: with room for that, and for a batch, nothing is allocated later.
  lent_.reserve(kLeastDropped + size_t{mine_->layout().lines} * mine_->layout().nRanks);
}

bool ShmOutbox::fits(uint64_t place, size_t bytes) const { return place + bytes - oldest() <= ringBytes_; }

Status ShmOutbox::forgetTaken() {
  while (lentBegin_ < lent_.size()) {
    const Lent& lent = lent_[lentBegin_];
    TUTTI_ASSIGN(const bool taken, lent.reader->test(lent.request));
    if (!taken) break;
    ++lentBegin_;
  }
  if (lentBegin_ < kLeastDropped && lentBegin_ < lent_.size()) return {};
  lent_.erase(lent_.begin(), lent_.begin() + static_cast<std::ptrdiff_t>(std::exchange(lentBegin_, 0)));
  return {};
}

Result<std::byte*> ShmOutbox::reserve(size_t bytes) {
  TUTTI_ASSERT_CMP(bytes, <=, mostBytes());
  const size_t whole = (bytes + kSpacing - 1) / kSpacing * kSpacing;
  const size_t window = std::max(kWindowBytes, (mine_->layout().slots + 1) * whole);
  uint64_t place = next_;
  if (place % ringBytes_ + whole > std::min(window, ringBytes_)) {
    const uint64_t again = place + ringBytes_ - place % ringBytes_;
    if (!fits(again, whole)) TUTTI_TRY(forgetTaken());
    const bool ends = place % ringBytes_ + whole > ringBytes_;  // a message is in one piece
    if (ends || fits(again, whole)) place = again;
  }
  if (!fits(place, whole) || lent_.size() == lent_.capacity()) {
    TUTTI_TRY(forgetTaken());
    if (!fits(place, whole)) return nullptr;
  }
  reserved_ = place;
  next_ = place + whole;
  return mine_->outbox(lane_) + place % ringBytes_;
}

int ShmOutbox::holdsUp(std::span<Endpoint* const> readers) const {
  for (size_t i = 0; i < readers.size(); ++i) {
    const auto begin = lent_.begin() + static_cast<std::ptrdiff_t>(lentBegin_);
    const auto untaken = std::count_if(begin, lent_.end(), [&](const Lent& lent) {
      if (lent.reader != readers[i]) return false;
      Result<bool> taken = lent.reader->test(lent.request);
      return taken.ok() && !*taken;
    });
    if (untaken >= mine_->layout().slots) return static_cast<int>(i);
  }
  return -1;
}

Result<bool> ShmOutbox::post(Endpoint& reader, size_t bytes, const Fingerprint& call) {
  // Only endpoints of ours say that this is their outbox.
  TUTTI_ASSIGN(const Request request, static_cast<ShmEndpoint&>(reader).share(reserved_ % ringBytes_, bytes, call));
  if (request == 0) return false;
  lent_.push_back({&reader, request, reserved_});
  return true;
}

}  // namespace tutti::shm
