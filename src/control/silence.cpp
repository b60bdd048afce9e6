#include "src/control/silence.hpp"

#include <algorithm>
#include <set>

#include "src/control/diagnosis.hpp"

namespace tutti {

namespace {

constexpr uint32_t kMostFound = 64;  // more neighbours than any rank has

std::string message(int by, uint64_t number, const Silences::Found& found) {
  Writer w(MessageType::Silence);
  w.i32(by);
  w.u64(number);
  w.u32(static_cast<uint32_t>(found.size()));
  for (const auto& [rank, ms] : found) {
    w.i32(rank);
    w.i64(ms);
  }
  return w.take();
}

template <class A, class B>
bool sameRanks(const std::map<int, A>& a, const std::map<int, B>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

}  // namespace

std::optional<std::string> Silences::find(const Found& found, int64_t nowNs) {
  const auto own = witnesses_.find(rank_);
  const uint64_t number = own == witnesses_.end() ? 0 : own->second.number;
  if (own == witnesses_.end() ? found.empty() : sameRanks(own->second.sinceNs, found)) return {};
  take(rank_, number + 1, found, nowNs);
  return message(rank_, number + 1, found);
}

std::optional<bool> Silences::onMessage(Reader& in, int64_t nowNs) {
  const int by = in.i32();
  const uint64_t number = in.u64();
  const uint32_t n = in.count(12);
  Found found;
  bool valid = by >= 0 && by < nRanks_ && n <= kMostFound;
  for (uint32_t i = 0; valid && i < n; ++i) {
    const int rank = in.i32();
    found[rank] = std::max<int64_t>(in.i64(), 0);
    valid = rank >= 0 && rank < nRanks_;
  }
  if (!valid || !in.done()) return {};
  const auto known = witnesses_.find(by);
  if (by == rank_ || (known != witnesses_.end() && number <= known->second.number)) return false;
  take(by, number, found, nowNs);
  return true;
}

int64_t Silences::silentSinceNs(int rank) const {
  int64_t sinceNs = kNoTimer;
  for (const auto& [by, witness] : witnesses_)
    if (const auto it = witness.sinceNs.find(rank); it != witness.sinceNs.end())
      sinceNs = std::min(sinceNs, it->second);
  return sinceNs;
}

void Silences::take(int by, uint64_t number, const Found& found, int64_t nowNs) {
  Witness& witness = witnesses_[by];
  std::set<int> changed;
  for (const auto& [rank, sinceNs] : witness.sinceNs) changed.insert(rank);
  witness.number = number;
  witness.sinceNs.clear();
  constexpr int64_t kMostMs = 86'400'000;
  for (const auto& [rank, ms] : found) witness.sinceNs[rank] = nowNs - std::min(ms, kMostMs) * 1'000'000;
  for (const auto& [rank, ms] : found)
    if (rank != rank_) warnOf(rank, by, ms, nowNs);
  for (const int rank : changed) {
    const std::vector<int> all = ranksWith(rank);
    const auto told = told_.find(all.front());
    if (told == told_.end() || std::any_of(all.begin(), all.end(), [&](int r) { return isSilent(r); })) continue;
    if (told->second) warnings_.push_back(placeOf(rank) + " answers again");
    told_.erase(told);
  }
}

/// Once for a host, as long as it is silent.
void Silences::warnOf(int rank, int by, int64_t ms, int64_t nowNs) {
  const int first = ranksWith(rank).front();
  if (told_.contains(first)) return;
  const uint64_t times = seldom_[first].due(nowNs);
  told_[first] = times > 0;
  if (times == 0) return;
  warnings_.push_back(cat(placeOf(rank), " has answered rank ", by, " nothing for ", ms,
                          " ms: it is down, or the network to it; TUTTI_HOST_GONE_MS says when its ranks count as dead",
                          times > 1 ? cat("; it has fallen silent ", times, " times since the last such line") : ""));
}

/// All ranks of a rank's host, as far as that is known.
std::vector<int> Silences::ranksWith(int rank) const {
  if (hosts_.size() != static_cast<size_t>(nRanks_)) return {rank};
  std::vector<int> ranks;
  for (int r = 0; r < nRanks_; ++r)
    if (hosts_[static_cast<size_t>(r)].id == hosts_[static_cast<size_t>(rank)].id) ranks.push_back(r);
  return ranks;
}

/// "node1 (ranks 2 and 3)", or "rank 2 at 10.0.0.3:40111".
std::string Silences::placeOf(int rank) const {
  if (hosts_.size() != static_cast<size_t>(nRanks_)) return cat("rank ", rank, " at ", addressOf_(rank));
  const std::vector<int> ranks = ranksWith(rank);
  return cat("host ", hosts_[static_cast<size_t>(rank)].name, ranks.size() == 1 ? " (rank " : " (ranks ",
             listRanks(ranks), ")");
}

}  // namespace tutti
