#include "transport/tcp/reopener.hpp"

#include <algorithm>

#include "src/base/assert.hpp"
#include "src/base/clock.hpp"

namespace tutti::tcp {
namespace {

constexpr int kIndicesOfGeneration = kMostStreamPaths << kStreamPathBit;  // lanes times sockets, by path
constexpr int64_t kTickNs = 20 * kMs;
constexpr int64_t kTickAwayNs = kMs;
constexpr int64_t kBetweenWarningsNs = 5000 * kMs;

}  // namespace

int Reopener::indexOf(int index, int generation) {
  TUTTI_ASSERT_CMP(index, <, kIndicesOfGeneration);
  TUTTI_ASSERT_CMP(generation, <=, kMostGenerations);
  return generation * kIndicesOfGeneration + index;
}

PendingFd Reopener::open(int peer, int index, int generation) {
  return streams_ == nullptr ? nullptr : streams_->open(peer, indexOf(index, generation));
}

Result<Fd> Reopener::opened(int peer, int index, int generation) {
  if (streams_ == nullptr || generation > kMostGenerations) return Fd();
  return streams_->opened(peer, indexOf(index, generation));
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

bool Reopener::warnsOfStall(int peer, int64_t nowNs) {
  const auto [last, first] = warnedNs_.try_emplace(peer, nowNs);
  const bool warns = first || nowNs - last->second > kBetweenWarningsNs;
  last->second = nowNs;
  return warns;
}

}  // namespace tutti::tcp
