#include "src/control/diagnosis.hpp"

#include <algorithm>
#include <map>

#include "src/control/deadlock.hpp"
#include "src/control/overlay.hpp"

namespace tutti {

namespace {

using Testimonies = std::span<const std::optional<RankReport>>;

/// Calls further back than this are not told; more than this is not believed.
constexpr size_t kMostDoingBytes = 160;
constexpr size_t kMaxRecent = 64;

const Fingerprint* callAt(const std::optional<RankReport>& report, uint64_t sequence) {
  if (!report) return nullptr;
  for (const auto& [number, fingerprint] : report->state.recent)
    if (number == sequence) return &fingerprint;
  return nullptr;
}

const std::optional<RankReport>& of(Testimonies all, int rank) { return all[static_cast<size_t>(rank)]; }
bool valid(Testimonies all, int rank) { return rank >= 0 && static_cast<size_t>(rank) < all.size(); }

const char* nameOf(Attendance call) {
  switch (call) {
    case Attendance::Split: return "tuttiCommSplit";
    case Attendance::Grow: return "tuttiCommGrow";
    case Attendance::End: return "tuttiCommDestroy or tuttiCommFinalize";
    case Attendance::None: break;
  }
  return "no call";
}

/// Names the call in which this rank exchanges data with all others.
std::string exchangeOf(const RankReport& t) {
  return t.state.attends != Attendance::None ? nameOf(t.state.attends) : cat("control exchange number ", t.gathers);
}

constexpr const char* kAdvice = ": find what keeps it, or raise the timeout";

/// Names, for sentences, the call or message that the asking rank waits in.
std::string waitsIn(const Question& q, Testimonies all) {
  const std::optional<RankReport>& origin = of(all, q.origin);
  if (q.sequence > 0) return describeSequence(origin, q.sequence);
  if (origin && origin->state.message) return describeMessage(*origin->state.message);
  if (origin && origin->gatherWaitingOn >= 0) return origin->joined ? exchangeOf(*origin) : "joining";
  return "a transfer";
}

Failure fail(int rank, ErrorCode kind, std::string text) {
  return {rank, Status(resultOf(kind), kind, std::move(text))};
}

// ---- Different calls.

/// The ranks that remember a call of this number, by what they called.
std::vector<std::pair<Fingerprint, std::vector<int>>> groupsAt(Testimonies all, uint64_t sequence) {
  std::vector<std::pair<Fingerprint, std::vector<int>>> groups;
  for (int rank = 0; valid(all, rank); ++rank) {
    const Fingerprint* call = callAt(of(all, rank), sequence);
    if (call == nullptr) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == *call; });
    if (group == groups.end()) group = groups.insert(group, {*call, {}});
    group->second.push_back(rank);
  }
  // The largest first; of equal ones that with the lowest rank.
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  return groups;
}

std::optional<uint64_t> firstDisagreement(Testimonies all) {
  std::map<uint64_t, const Fingerprint*> seen;
  std::optional<uint64_t> first;
  for (int rank = 0; valid(all, rank); ++rank) {
    if (!of(all, rank)) continue;
    for (const auto& [number, fingerprint] : of(all, rank)->state.recent) {
      const auto [it, isNew] = seen.emplace(number, &fingerprint);
      if (!isNew && !(*it->second == fingerprint) && (!first || number < *first)) first = number;
    }
  }
  return first;
}

const char* plural(size_t n) { return n == 1 ? "rank " : "ranks "; }

Diagnosis diagnoseDifferent(Testimonies all, uint64_t sequence) {
  const auto groups = groupsAt(all, sequence);
  const auto& [majorityCall, majority] = groups[0];
  const auto& [oddCall, odd] = groups[1];
  size_t known = 0;
  for (const auto& group : groups) known += group.second.size();
  const bool clear = majority.size() > odd.size();
  // Older calls than are told may have differed, of which a Barrier has no more than a checksum.
  const bool before = describeCall(oddCall) == describeCall(majorityCall);
  std::string text =
      before  ? cat("the calls of ", plural(odd.size()), listRanks(odd), " and those of ", plural(majority.size()),
                    listRanks(majority), " differ somewhere before ", describeCall(majorityCall))
      : clear ? cat(plural(odd.size()), listRanks(odd), " called ", describeCall(oddCall), " where ",
                    plural(majority.size()), listRanks(majority), " called ", describeCall(majorityCall))
              : cat(plural(majority.size()), listRanks(majority), " called ", describeCall(majorityCall), " but ",
                    plural(odd.size()), listRanks(odd), " called ", describeCall(oddCall));
  if (groups.size() > 2) text += cat(", and others called yet something else");
  text += "; every rank must make the same collective calls in the same order with matching arguments";
  // More answers can only turn a majority around if those that are not known could.
  const size_t unknown = all.size() - known;
  const bool certain = majority.size() > odd.size() + unknown || unknown == 0;
  return {fail(clear ? odd[0] : -1, ErrorCode::CallsDiffer, std::move(text)), certain};
}

// ---- Left, silent, absent.

/// Whether `other` has done all that the waiting rank needs of it.
bool hasDone(const RankReport& other, const RankReport& waiter, int waiterRank) {
  const RankState &o = other.state, &w = waiter.state;
  if (w.inside) return o.entered > w.entered || (o.entered == w.entered && !o.inside);
  if (w.message) {
    const bool told = !w.message->isSend && o.pairs.size() < kMaxPairCounts;
    return told && !lacksSend(o, waiterRank, partsOf(w.message->call).sequence);
  }
  if (waiter.gatherWaitingOn < 0 || !waiter.joined) return false;
  return other.gathers > waiter.gathers || (other.gathers == waiter.gathers && other.gatherWaitingOn < 0);
}

/// Whether the asking rank still waits for a rank that has left, in something other than a collective or an exchange.
bool lacksOtherwise(const Question& q, const std::optional<RankReport>& origin, int rank, const RankReport& left) {
  if (q.sequence != 0 || rank != q.suspect) return false;
  return !origin || (origin->gatherWaitingOn < 0 && !hasDone(left, *origin, q.origin));
}

std::optional<Failure> diagnoseLeft(const Question& q, Testimonies all) {
  // Leaving after the call is everyone's right: what such a rank had to send has been sent.
  const std::optional<RankReport>& origin = of(all, q.origin);
  for (int rank = 0; valid(all, rank); ++rank) {
    const std::optional<RankReport>& t = of(all, rank);
    if (!t || !t->left) continue;
    const bool beforeCall = q.sequence > 0 && t->state.entered < q.sequence;
    const bool beforeGather = origin && origin->gatherWaitingOn >= 0 && t->gathers < origin->gathers;
    if (beforeCall || beforeGather || lacksOtherwise(q, origin, rank, *t))
      return fail(rank, ErrorCode::LeftEarly,
                  cat("rank ", rank, " has destroyed its communicator while rank ", q.origin, " waits in ",
                      waitsIn(q, all), "; all ranks must make the same calls before any of them leaves"));
  }
  return {};
}

Failure silent(const Question& q, Testimonies all, int rank, const std::vector<int>& others) {
  std::string text = cat("rank ", rank, " does not answer while rank ", q.origin, " waits in ", waitsIn(q, all));
  if (!others.empty()) text += cat(" (nor ", others.size() == 1 ? "does rank " : "do ranks ", listRanks(others), ")");
  text += "; its process is stopped, stuck, cut off or gets no core: look at it, then abort this communicator";
  return fail(rank, ErrorCode::RankStuck, std::move(text));
}

/// A mute rank is accused if someone who does answer is linked with it and has not heard it say goodbye.  Else nobody
/// knows: it may have left in order, together with all its neighbours.
std::optional<Failure> diagnoseSilent(const Question& q, Testimonies all) {
  std::vector<int> accused;
  for (int rank = 0; valid(all, rank); ++rank) {
    if (of(all, rank)) continue;
    const auto links = overlayLinks(rank, static_cast<int>(all.size()));
    if (std::any_of(links.begin(), links.end(),
                    [&](const OverlayLink& link) { return of(all, link.peer) && !of(all, link.peer)->left; }))
      accused.push_back(rank);
  }
  if (accused.empty()) return {};
  // Whom the asking rank waits for comes first; else the lowest.
  const auto suspect = std::find(accused.begin(), accused.end(), q.suspect);
  const int rank = suspect != accused.end() ? *suspect : accused[0];
  accused.erase(std::find(accused.begin(), accused.end(), rank));
  return silent(q, all, rank, accused);
}

Failure absent(Testimonies all, int rank, int waiter, uint64_t sequence) {
  const bool elsewhere = !of(all, rank)->state.elsewhere.empty();
  const char* advice = elsewhere ? "; ranks that share two communicators must use them in the same order" : kAdvice;
  return fail(rank, ErrorCode::RankSilent,
              cat("rank ", rank, " has not entered ", describeSequence(of(all, waiter), sequence), " in which rank ",
                  waiter, " waits for it; it is ", describeState(*of(all, rank)), advice));
}

/// The rank that `rank` waits for, -1 if none.
int waitsFor(const Question& q, const RankReport& t, int rank) {
  if (t.state.waitingOn >= 0) return t.state.waitingOn;
  if (t.state.message) return t.state.message->peer;
  if (t.gatherWaitingOn >= 0) return t.gatherWaitingOn;
  return rank == q.origin ? q.suspect : -1;
}

/// Answers are given at different times, and a rank without a core is behind what the others say of it.
Failure slow(int waiter, const RankReport& w, int rank) {
  return fail(
      waiter, ErrorCode::RankSilent,
      cat("rank ", waiter, " is still ", describeState(w), ", where it waits for rank ", rank,
          ", which has done its part: rank ", waiter, " gets no core to go on, or what rank ", rank,
          " sent it is on its way; look at the load of rank ", waiter, "'s host and at the network between the two"));
}

/// Follow who waits for whom from the asking rank; the end of the chain is to blame.
std::optional<Failure> diagnoseChain(const Question& q, Testimonies all) {
  int waiter = q.origin;
  for (size_t hops = 0; hops <= all.size() && of(all, waiter); ++hops) {
    const RankReport& w = *of(all, waiter);
    const int rank = waitsFor(q, w, waiter);
    if (!valid(all, rank) || rank == waiter || !of(all, rank)) return {};
    const RankReport& t = *of(all, rank);
    if (hasDone(t, w, waiter)) return slow(waiter, w, rank);
    if (waitsFor(q, t, rank) >= 0) {  // a circle ends by the count of hops
      waiter = rank;
      continue;
    }
    if (w.state.inside && t.state.entered < w.state.entered) return absent(all, rank, waiter, w.state.entered);
    if (w.gatherWaitingOn >= 0 && t.gathers < w.gathers)
      return fail(rank, ErrorCode::RankSilent,
                  cat("rank ", rank, " has not entered ", exchangeOf(w), " in which rank ", waiter,
                      " waits for it; it is ", describeState(t), kAdvice));
    return fail(rank, ErrorCode::RankSilent,
                cat("rank ", waiter, " waits for rank ", rank, " in ",
                    w.state.inside ? describeSequence(w, w.state.entered) : waitsIn(q, all), ", but rank ", rank,
                    " is ", describeState(t), " and waits for nobody"));
  }
  return {};
}

/// The chain led nowhere: whoever is furthest behind.
std::optional<Failure> diagnoseBehind(const Question& q, Testimonies all) {
  if (q.sequence == 0) return {};
  int behind = -1;
  for (int rank = 0; valid(all, rank); ++rank) {
    const std::optional<RankReport>& t = of(all, rank);
    if (!t || t->state.entered >= q.sequence) continue;
    if (behind < 0 || t->state.entered < of(all, behind)->state.entered) behind = rank;
  }
  if (behind < 0) return {};
  return absent(all, behind, q.origin, q.sequence);
}

Failure unexplained(const Question& q, Testimonies all) {
  if (q.reason == InquiryReason::Mismatch)
    return fail(q.suspect, ErrorCode::CallsDiffer,
                cat("rank ", q.origin, " got a message of another call from rank ", q.suspect, " while it was in ",
                    waitsIn(q, all), "; matching calls must agree in type, count and order on both ranks"));
  const std::string whom = q.suspect >= 0 ? cat(" for rank ", q.suspect) : std::string();
  return fail(-1, ErrorCode::RankSilent,
              cat("rank ", q.origin, " has waited too long", whom, " in ", waitsIn(q, all),
                  ", though all ranks answer and none is behind: raise the timeout if the call may take that long"));
}

}  // namespace

Diagnosis diagnose(const Question& q, Testimonies all) {
  if (const auto sequence = firstDisagreement(all)) return diagnoseDifferent(all, *sequence);
  if (auto left = diagnoseLeft(q, all)) return {std::move(left), true};
  const Patience patience = q.reason == InquiryReason::Deadline ? Patience::Over : Patience::Endless;
  if (auto deadlock = diagnoseDeadlock(q.origin, all, patience)) return {std::move(deadlock), true};
  const bool allAnswered = std::all_of(all.begin(), all.end(), [](const auto& t) { return t.has_value(); });
  if (q.reason == InquiryReason::Stalled) return {std::nullopt, allAnswered};
  if (auto culprit = diagnoseSilent(q, all)) return {std::move(culprit), false};
  if (q.reason == InquiryReason::Mismatch) {
    // The rank that sent the message may be about to say what it called.
    return {unexplained(q, all), false};
  }
  if (auto culprit = diagnoseChain(q, all)) return {std::move(culprit), true};
  if (auto culprit = diagnoseBehind(q, all)) return {std::move(culprit), true};
  return {unexplained(q, all), true};
}

std::string describeSequence(const std::optional<RankReport>& report, uint64_t sequence) {
  const Fingerprint* call = callAt(report, sequence);
  return call != nullptr ? describeCall(*call) : cat("collective number ", sequence);
}

std::string describeState(const RankReport& t) {
  if (t.state.inside) return cat("in ", describeSequence(t, t.state.entered));
  if (t.state.message) return cat("in ", describeMessage(*t.state.message));
  if (!t.joined) return "still joining";
  if (t.state.attends != Attendance::None || t.gatherWaitingOn >= 0) return cat("in ", exchangeOf(t));
  if (!t.state.elsewhere.empty()) return t.state.elsewhere;
  if (t.state.entered == 0) return "in no call and has made none yet";
  return cat("in no call (its last was ", describeSequence(t, t.state.entered), ")");
}

std::string describeMessage(const MessageWait& wait) {
  const CallParts parts = partsOf(wait.call);
  const bool known = validDataType(static_cast<int>(parts.dtype));
  return cat(wait.isSend ? "Send to rank " : "Recv from rank ", wait.peer, " (message ", parts.sequence,
             " of the pair, count ", parts.count, ", ",
             known ? dataTypeName(static_cast<tuttiDataType_t>(parts.dtype)) : "of an unknown type", ")");
}

std::string nameRanks(const std::vector<int>& ranks) { return cat(plural(ranks.size()), listRanks(ranks)); }

std::string listRanks(const std::vector<int>& ranks) {
  constexpr size_t kMost = 8;
  std::string text;
  const size_t shown = std::min(ranks.size(), kMost);
  for (size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == ranks.size();
    text += cat(i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  if (ranks.size() > shown) text += cat(" and ", ranks.size() - shown, " more");
  return text;
}

namespace {

void writeCall(Writer& out, const CommunicatorCall& call) {
  out.u64(call.communicator);
  out.u64(call.sequence);
}

CommunicatorCall readCommunicatorCall(Reader& in) {
  const uint64_t communicator = in.u64();
  return {communicator, in.u64()};
}

}  // namespace

void writeRankReport(Writer& out, const RankReport& t) {
  out.u64(t.state.entered);
  out.u8(static_cast<uint8_t>((t.state.inside ? 1 : 0) | (t.joined ? 2 : 0) | (t.left ? 4 : 0) |
                              (t.state.oneThread ? 8 : 0)));
  out.i32(t.state.waitingOn);
  out.u8(static_cast<uint8_t>(t.state.attends));
  out.text(std::string_view(t.state.elsewhere).substr(0, kMaxElsewhereBytes));
  writeCall(out, t.state.awaited);
  const size_t others = std::min(t.state.others.size(), kMaxOtherCalls);
  out.u32(static_cast<uint32_t>(others));
  for (size_t i = 0; i < others; ++i) writeCall(out, t.state.others[i]);
  out.u8(!t.state.message ? 0 : t.state.message->isSend ? 2 : 1);
  if (t.state.message) {
    out.i32(t.state.message->peer);
    out.u64(t.state.message->call.head);
    out.u64(t.state.message->call.count);
  }
  const size_t pairs = std::min(t.state.pairs.size(), kMaxPairCounts);
  out.u32(static_cast<uint32_t>(pairs));
  for (size_t i = 0; i < pairs; ++i) {
    out.i32(t.state.pairs[i].peer);
    out.u32(t.state.pairs[i].sends);
    out.u32(t.state.pairs[i].receives);
  }
  out.u64(t.gathers);
  out.i32(t.gatherWaitingOn);
  out.u64(t.state.calls);
  out.u64(t.state.bytes);
  out.i64(t.state.doingNs);
  out.text(std::string_view(t.state.doing).substr(0, kMostDoingBytes));
  const size_t skip = t.state.recent.size() > kMaxRecent ? t.state.recent.size() - kMaxRecent : 0;
  out.u32(static_cast<uint32_t>(t.state.recent.size() - skip));
  for (size_t i = skip; i < t.state.recent.size(); ++i) {
    out.u64(t.state.recent[i].first);
    out.u64(t.state.recent[i].second.head);
    out.u64(t.state.recent[i].second.count);
  }
}

RankReport readRankReport(Reader& in) {
  RankReport t;
  t.state.entered = in.u64();
  const uint8_t flags = in.u8();
  t.state.inside = (flags & 1) != 0;
  t.joined = (flags & 2) != 0;
  t.left = (flags & 4) != 0;
  t.state.oneThread = (flags & 8) != 0;
  t.state.waitingOn = in.i32();
  t.state.attends = static_cast<Attendance>(std::min<uint8_t>(in.u8(), static_cast<uint8_t>(Attendance::End)));
  t.state.elsewhere = in.text(kMaxElsewhereBytes);
  t.state.awaited = readCommunicatorCall(in);
  t.state.others.resize(in.count(16));
  for (CommunicatorCall& call : t.state.others) call = readCommunicatorCall(in);
  if (const uint8_t message = in.u8(); message != 0) {
    const int32_t peer = in.i32();
    const uint64_t head = in.u64();
    t.state.message = MessageWait{peer, message == 2, {head, in.u64()}};
  }
  const uint32_t pairs = in.count(12);
  for (uint32_t i = 0; i < pairs; ++i) {
    const int32_t peer = in.i32();
    const uint32_t sends = in.u32();
    t.state.pairs.push_back({peer, sends, in.u32()});
  }
  t.gathers = in.u64();
  t.gatherWaitingOn = in.i32();
  t.state.calls = in.u64();
  t.state.bytes = in.u64();
  t.state.doingNs = in.i64();
  t.state.doing = in.text(kMostDoingBytes);
  const uint32_t calls = in.count(24);
  for (uint32_t i = 0; i < calls; ++i) {
    const uint64_t number = in.u64();
    const uint64_t head = in.u64();
    t.state.recent.push_back({number, Fingerprint{head, in.u64()}});
  }
  return t;
}

}  // namespace tutti
