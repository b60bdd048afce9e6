#include "transport/tcp/reopener.hpp"

#include <algorithm>

#include "src/base/assert.hpp"
#include "src/base/clock.hpp"
#include "src/base/log.hpp"

namespace tutti::tcp {
namespace {

constexpr StreamIndex kIndicesOfGeneration = kMostStreamPaths << kStreamPathBit;  // lanes times sockets, by path
constexpr int64_t kTickNs = 20 * kMs;
constexpr int64_t kTickAwayNs = kMs;

}  // namespace

StreamIndex Reopener::indexOf(StreamIndex index, int generation) {
  TUTTI_ASSERT_CMP(index, <, kIndicesOfGeneration);
  return generation * kIndicesOfGeneration + index;
}

PendingFd Reopener::open(int peer, StreamIndex index, int generation) {
  return streams_ == nullptr ? nullptr : streams_->open(peer, indexOf(index, generation));
}

Result<Fd> Reopener::opened(int peer, StreamIndex index, int generation) {
  if (streams_ == nullptr) return Fd();
  return streams_->opened(peer, indexOf(index, generation));
}

void Reopener::taken(int peer, StreamIndex index, int generation) {
  if (streams_ != nullptr) (void)streams_->keysOf(peer, indexOf(index, generation));
}

void Reopener::add(Owner* owner) {
  const std::lock_guard lock(mutex_);
  owners_.push_back(owner);
}

void Reopener::remove(const Owner* owner) {
  const std::lock_guard lock(mutex_);
  std::erase(owners_, owner);
}

void Reopener::tick() {
  const int64_t now = nowNs();
  if (now < nextTickNs_) return;
  bool away = false;
  const std::lock_guard lock(mutex_);
  for (Owner* owner : owners_) away = owner->tick(now) || away;
  nextTickNs_ = now + (away ? kTickAwayNs : kTickNs);
}

void Reopener::end() {
  streams_ = nullptr;
  for (auto& [peer, repairs] : repairs_) {
    const uint64_t more = repairs.take();
    if (more > 0)
      TUTTI_WARN("tcp", "rank ", rank_, "'s connections to rank ", peer, " were made again ", more,
                 more == 1 ? " time more" : " times more");
  }
}

}  // namespace tutti::tcp
