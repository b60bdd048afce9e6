#include "src/control/deadlock.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace tutti {

namespace {

/// By rank.
struct Reports {
  std::span<const std::optional<RankReport>> all;
  Patience patience;
  int size() const { return static_cast<int>(all.size()); }
  auto begin() const { return all.begin(); }
  auto end() const { return all.end(); }
};

const RankReport& at(const Reports& reports, int rank) { return *reports.all[static_cast<size_t>(rank)]; }
bool answered(const Reports& reports, int rank) { return reports.all[static_cast<size_t>(rank)].has_value(); }

/// Whether the collective ends on no rank before all have entered it.
bool takesAll(const Fingerprint& call) {
  const CallParts parts = partsOf(call);
  if (parts.kind >= kKindCounts) return false;
  switch (static_cast<Collective>(parts.kind)) {
    case Collective::AllReduce:
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll: return parts.count > 0;
    case Collective::Barrier: return true;
    default: return false;
  }
}

/// Numbers of messages are told modulo 2^24.
bool isBehind(uint32_t count, uint32_t number) { return ((number - count) & 0xffffff) < 0x800000; }

bool lacksMessage(const RankReport& waiter, int rank, const RankReport& other, int otherRank) {
  const std::optional<MessageWait>& wait = waiter.state.message;
  if (!wait || wait->isSend || wait->peer != otherRank) return false;
  return lacksSend(other.state, rank, partsOf(wait->call).sequence);
}

bool inExchange(const RankReport& report) {
  return report.state.attends != Attendance::None && report.gatherWaitingOn >= 0;
}

/// Whether a call of another communicator, which `waiter` waits in, needs a call of `other`: of each, one thread alone
/// has used both.
bool lacksOther(const RankState& waiter, const RankState& other, Patience patience) {
  if (waiter.awaited.communicator == 0) return false;
  if (patience == Patience::Endless && !(waiter.oneThread && other.oneThread)) return false;
  return std::any_of(other.others.begin(), other.others.end(), [&](const auto& newest) {
    return newest.communicator == waiter.awaited.communicator && newest.sequence < waiter.awaited.sequence;
  });
}

/// Whether `waiter` cannot go on before `other` has done what it has not.
bool waitsFor(const Reports& all, int waiter, int other) {
  const RankReport& w = at(all, waiter);
  const RankReport& o = at(all, other);
  if (o.left || w.left) return false;
  if (lacksMessage(w, waiter, o, other)) return true;
  if (inExchange(w) && o.gathers < w.gathers) return true;
  if (lacksOther(w.state, o.state, all.patience)) return true;
  return w.state.inside && o.state.entered < w.state.entered && isInCallOfAll(w.state);
}

/// Ranks of which this is the same are in the same call.
std::tuple<int, uint64_t, int> placeOf(const RankReport& t) {
  if (inExchange(t)) return {1 + static_cast<int>(t.state.attends), t.gathers, -1};
  if (t.state.inside) return {1, t.state.entered, -1};
  return {0, 0, t.state.message ? t.state.message->peer : -1};
}

/// The one of these that fewer ranks are with; -1: as many.
int oddOneOf(const Reports& all, int a, int b) {
  const auto with = [&](int rank) {
    return std::count_if(all.begin(), all.end(),
                         [&](const auto& t) { return t && placeOf(*t) == placeOf(at(all, rank)); });
  };
  return with(a) == with(b) ? -1 : with(a) < with(b) ? a : b;
}

Failure circle(const Reports& all, const std::vector<int>& ranks) {
  std::string text = cat("ranks ", listRanks(ranks), " wait for each other for ever: ");
  constexpr size_t kMost = 6;
  bool others = false;
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i) {
    const RankReport& report = at(all, ranks[i]);
    std::string state = describeState(report);
    if (report.state.awaited.communicator != 0) {
      others = true;
      state.resize(std::min(state.size(), state.find(kWhereItWaits)));  // the other communicator's number of that rank
    }
    text += cat(i == 0 ? "" : "; ", "rank ", ranks[i], " is ", state, " and waits for rank ",
                ranks[(i + 1) % ranks.size()]);
  }
  text += others ? "; ranks that share two communicators must use them in the same order"
                 : "; all ranks must make the same collective calls in the same order, and every Recv needs its Send";
  return {ranks.size() == 2 ? oddOneOf(all, ranks[0], ranks[1]) : -1, invalidUsage(ErrorCode::WaitInCircle, text)};
}

/// Two that have come to the same exchange by different calls.
std::optional<Failure> differentExchanges(int origin, const Reports& all) {
  if (!answered(all, origin) || !inExchange(at(all, origin))) return {};
  const RankReport& w = at(all, origin);
  for (int rank = 0; rank < all.size(); ++rank) {
    if (!answered(all, rank) || !inExchange(at(all, rank)) || at(all, rank).left) continue;
    const RankReport& o = at(all, rank);
    const bool ends = (o.state.attends == Attendance::End) != (w.state.attends == Attendance::End);
    if (ends && o.gathers == w.gathers) return circle(all, {origin, rank});
  }
  return {};
}

/// Exchanges and collectives have one order on all ranks: one rank that has come to an exchange without a collective
/// that another one has entered before that exchange differs from it, whether they wait or not.
std::optional<Failure> outOfOrder(const Reports& all, int first, int second) {
  const RankReport& f = at(all, first);
  const RankReport& s = at(all, second);
  if (!inExchange(f) || f.left || s.left || s.gathers >= f.gathers || s.state.entered <= f.state.entered) return {};
  const auto others = [&](auto is) {
    return std::count_if(all.begin(), all.end(), [&](const auto& t) { return t && is(*t); });
  };
  const auto like = others([&](const RankReport& t) { return placeOf(t) == placeOf(f); });
  const auto unlike = others([&](const RankReport& t) { return t.state.entered > f.state.entered; });
  return Failure{
      like == unlike  ? -1
      : like < unlike ? first
                      : second,
      invalidUsage(ErrorCode::WaitInCircle, "rank ", first, " is ", describeState(f), " and has not entered ",
                   describeSequence(all.all[static_cast<size_t>(second)], f.state.entered + 1), ", which rank ", second,
                   " has; all ranks must make the same collective calls in the same order")};
}

/// Depth first from path.back(); true: path ends in a circle, which begins where its last rank has come before.
bool follow(const Reports& all, std::vector<int>* path, std::vector<bool>* seen) {
  const int waiter = path->back();
  (*seen)[static_cast<size_t>(waiter)] = true;
  for (int other = 0; other < all.size(); ++other) {
    if (other == waiter || !answered(all, other) || !waitsFor(all, waiter, other)) continue;
    path->push_back(other);
    if (std::find(path->begin(), path->end() - 1, other) != path->end() - 1) return true;
    if (!(*seen)[static_cast<size_t>(other)] && follow(all, path, seen)) return true;
    path->pop_back();
  }
  return false;
}

}  // namespace

bool lacksSend(const RankState& state, int to, uint32_t number) {
  const std::vector<PairCount>& pairs = state.pairs;
  const auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const PairCount& p) { return p.peer == to; });
  if (pair == pairs.end() && pairs.size() >= kMaxPairCounts) return false;  // not told
  return isBehind(pair == pairs.end() ? 0 : pair->sends, number);
}

bool isInCallOfAll(const RankState& state) {
  return state.inside && std::any_of(state.recent.begin(), state.recent.end(), [&](const auto& call) {
           return call.first == state.entered && takesAll(call.second);
         });
}

std::optional<Failure> diagnoseDeadlock(int origin, std::span<const std::optional<RankReport>> reports,
                                        Patience patience) {
  const Reports all{reports, patience};
  if (!answered(all, origin)) return {};
  if (auto failure = differentExchanges(origin, all)) return failure;
  // Two say it shortest.
  for (int other = 0; other < all.size(); ++other) {
    if (other != origin && answered(all, other) && waitsFor(all, origin, other) && waitsFor(all, other, origin))
      return circle(all, {origin, other});
  }
  for (int other = 0; other < all.size(); ++other) {
    if (other == origin || !answered(all, other)) continue;
    if (auto failure = outOfOrder(all, origin, other)) return failure;
    if (auto failure = outOfOrder(all, other, origin)) return failure;
  }
  std::vector<int> path{origin};
  std::vector<bool> seen(reports.size());
  if (!follow(all, &path, &seen)) return {};
  const auto begin = std::find(path.begin(), path.end(), path.back());
  return circle(all, {begin, path.end() - 1});
}

}  // namespace tutti
