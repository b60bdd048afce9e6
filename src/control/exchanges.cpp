#include "src/control/exchanges.hpp"

#include <utility>

namespace tutti {

namespace {
/// How far ahead of us a peer's gathers may be.
constexpr uint64_t kMaxAhead = 1 << 12;
}  // namespace

Exchanges::Exchange& Exchanges::at(uint64_t n) {
  return exchanges_.try_emplace(n, Exchange{Gather(rank_, nRanks_, n)}).first->second;
}

void Exchanges::start(uint64_t n, std::string blob) {
  at(n).gather.start(std::move(blob));
  advance(n);
}

void Exchanges::advance(uint64_t n) {
  Exchange& e = exchanges_.at(n);
  for (const Gather::Outgoing& out : e.gather.takeReady()) send_(out.to, out.message);
  if (e.forgotten && e.gather.complete()) exchanges_.erase(n);
}

bool Exchanges::accept(int from, uint64_t n, Reader& in) {
  const bool finished = n == kJoining ? joined_ : n < next_ && !exchanges_.contains(n);
  if (finished || n >= next_ + kMaxAhead) return false;
  if (!at(n).gather.accept(from, in).ok()) return false;
  advance(n);
  return true;
}

const std::vector<std::string>* Exchanges::gathered(uint64_t n) const {
  const auto it = exchanges_.find(n);
  return it != exchanges_.end() && it->second.gather.complete() ? &it->second.gather.blobs() : nullptr;
}

void Exchanges::forget(uint64_t n, bool now) {
  const auto it = exchanges_.find(n);
  if (it == exchanges_.end()) return;
  it->second.forgotten = true;
  if (it->second.gather.complete() || now) exchanges_.erase(it);
}

void Exchanges::joined() {
  joined_ = true;
  exchanges_.erase(kJoining);
}

std::optional<uint64_t> Exchanges::needing(int peer) const {
  for (const auto& [n, e] : exchanges_)
    if (e.gather.started() && e.gather.needs(peer)) return n;
  return {};
}

Exchanges::Standing Exchanges::standing() const {
  for (const auto& [n, e] : exchanges_)
    if (e.gather.started() && !e.gather.complete()) return {n > 0 ? n : next_ - 1, e.gather.waitingOn()};
  return {.gathers = next_ - 1};
}

int Exchanges::waitingOnToJoin() const {
  const auto it = exchanges_.find(kJoining);
  return it == exchanges_.end() ? -1 : it->second.gather.waitingOn();
}

std::vector<int> Exchanges::missingToJoin() const {
  const auto it = exchanges_.find(kJoining);
  return it == exchanges_.end() ? std::vector<int>{} : it->second.gather.missing();
}

}  // namespace tutti
