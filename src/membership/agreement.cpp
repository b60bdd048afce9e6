#include "src/membership/agreement.hpp"

#include <algorithm>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/text.hpp"

namespace tutti {

namespace {

/// More are not believed, so that the next one has a number.
constexpr uint64_t kMostEpochs = uint64_t{1} << 48;
/// An epoch that no rank gets to: nothing has to be told of those before.
constexpr uint64_t kAll = UINT64_MAX;

bool holdsRank(const std::vector<int>& ascending, int rank) {
  return std::binary_search(ascending.begin(), ascending.end(), rank);
}

bool areRanks(const std::vector<int>& ranks, int nRanks) {
  return std::is_sorted(ranks.begin(), ranks.end(), std::less_equal<>()) &&
         (ranks.empty() || (ranks.front() >= 0 && ranks.back() < nRanks));
}

bool makesSense(const Decision& decision, int nRanks) {
  return decision.epoch <= kMostEpochs && areRanks(decision.gone, nRanks) &&
         (decision.calls.empty() || decision.calls.size() == static_cast<size_t>(nRanks));
}

/// Only its number, if the receiver has it.
Decision told(const Decision& decision, bool whole) { return whole ? decision : Decision{.epoch = decision.epoch}; }

}  // namespace

std::vector<int> membersAfter(const Decision& decision, int nRanks) {
  std::vector<int> members;
  for (int rank = 0; rank < nRanks; ++rank)
    if (!holdsRank(decision.gone, rank)) members.push_back(rank);
  return members;
}

std::string childLabel(std::string_view kind, uint64_t epoch, const std::vector<int>& members) {
  std::string label = cat(kind, "/", epoch);
  for (const int rank : members) label += cat("/", rank);
  return label;
}

// ---- What happens to this rank.

void Agreement::vote(const Vote& vote) {
  if (excludedBy_ >= 0) return;
  for (const int rank : vote.excluded) addGone(rank);
  voted_ = true;
  call_ = vote.call;
  coordinator_ == rank_ ? coordinate() : report(kAll);
}

void Agreement::markGone(int rank) {
  const int before = coordinator_;
  if (excludedBy_ >= 0 || !addGone(rank)) return;
  if (coordinator_ == rank_) {
    if (phase_ != Phase::Idle || voted_) coordinate();
  } else if (coordinator_ != before && voted_) {
    report(kAll);
  }
}

// Every message says all of its sender, so the newest makes up for those before it.
void Agreement::goOnWith(int rank) {
  if (excludedBy_ >= 0 || gone_.contains(rank)) return;
  if (coordinator_ == rank_) {
    if (phase_ != Phase::Idle) outgoing_.push_back({{rank}, message(true, 0)});
  } else if (rank == coordinator_ && entered() > 0) {
    report(kAll);
  }
}

bool Agreement::accept(int from, AgreementMessage message) {
  if (from < 0 || from >= nRanks_ || from == rank_) return false;
  if (!areRanks(message.gone, nRanks_) || !areRanks(message.lacking, nRanks_) ||
      !makesSense(message.decided, nRanks_) || !makesSense(message.proposed, nRanks_)) {
    return false;
  }
  if (excludedBy_ >= 0) return true;
  const bool takenForGone = holdsRank(message.gone, rank_);
  if (gone_.contains(from)) {
    if (!takenForGone) outgoing_.push_back({{from}, this->message(true, kAll)});  // else both would answer for ever
    return true;
  }
  if (takenForGone) {
    excludedBy_ = from;
    return true;
  }
  for (const int rank : message.gone) addGone(rank);
  const uint64_t kept = message.proposed.epoch;
  if (!message.order) reports_[from] = {message.decided.epoch, kept, message.voted, message.call};
  if (!learn(&message)) return false;
  if (message.order) {
    told_ = std::move(message.lacking);
    report(kept);
  } else if (coordinator_ == rank_) {
    if (suffices(from)) lacking_.erase(from);
    coordinate();
  }
  return true;
}

/// What the sender has and this rank lacks.  False: an order names an epoch of which this rank has nothing.
bool Agreement::learn(AgreementMessage* message) {
  const bool reported = !message->order;  // unasked ones say only which epochs they have; an order has them tell
  if (message->decided.epoch > decided_.epoch) {
    if (message->decided.calls.empty() && proposed_.epoch != message->decided.epoch) return reported;
    decide(message->decided.calls.empty() ? Decision(proposed_) : message->decided);
  }
  if (message->proposed.epoch != decided_.epoch + 1 || proposed_.epoch == message->proposed.epoch) return true;
  if (message->proposed.calls.empty()) return reported;
  proposed_ = std::move(message->proposed);
  return true;
}

std::vector<Agreement::Outgoing> Agreement::take() { return std::exchange(outgoing_, {}); }

std::vector<int> Agreement::waitingOn() const {
  std::vector<int> ranks = coordinator_ == rank_ ? lacking() : told_;
  std::erase_if(ranks, [this](int rank) { return rank == rank_ || gone_.contains(rank); });
  if (ranks.empty() && coordinator_ != rank_) ranks.push_back(coordinator_);
  return ranks;
}

bool Agreement::leads() const {
  if (coordinator_ != rank_ || phase_ == Phase::Idle) return false;
  return voted_ || phase_ == Phase::Proposing || std::any_of(reports_.begin(), reports_.end(), [this](const auto& one) {
           return one.second.voted && one.second.decided == decided_.epoch;
         });
}

/// The ranks that the coordinator waits for, itself included.
std::vector<int> Agreement::lacking() const {
  std::vector<int> ranks(lacking_.begin(), lacking_.end());
  if (!voted_) ranks.insert(std::lower_bound(ranks.begin(), ranks.end(), rank_), rank_);
  return ranks;
}

/// False: that was known.  This rank itself is never among them.
bool Agreement::addGone(int rank) {
  if (rank == rank_ || !gone_.insert(rank).second) return false;
  // It may live, and wait for this rank.
  if (reports_.erase(rank) > 0 || rank == coordinator_) outgoing_.push_back({{rank}, message(true, kAll)});
  lacking_.erase(rank);
  while (gone_.contains(coordinator_)) ++coordinator_;
  return true;
}

void Agreement::decide(const Decision& decision) {
  TUTTI_ASSERT_CMP(decision.epoch, >, decided_.epoch);
  // Whole or not at all: those who wait take a new epoch for all of it, and memory may run out in the copies.
  Decision proposed = decision, decided = decision;
  proposed_ = std::move(proposed);
  decided_ = std::move(decided);
  voted_ = false;
  call_ = {};
  told_.clear();
  if (phase_ == Phase::Idle) return;
  enter(Phase::Voting);
  order();
}

// ---- The coordinator.

/// Begin, or go on as far as reports allow.
void Agreement::coordinate() {
  if (phase_ == Phase::Idle) {
    enter(Phase::Voting);
    order();
  }
  while (lacking_.empty()) {
    if (phase_ == Phase::Proposing) {
      decide(proposed_);
      continue;
    }
    if (!voted_) return;
    if (proposed_.epoch == decided_.epoch) proposed_ = countVotes();
    enter(Phase::Proposing);
    order();
  }
}

void Agreement::enter(Phase phase) {
  phase_ = phase;
  lacking_.clear();
  for (int rank = 0; rank < nRanks_; ++rank)
    if (rank != rank_ && !gone_.contains(rank) && !suffices(rank)) lacking_.insert(rank);
}

/// Whether a rank has said what this phase waits for.
bool Agreement::suffices(int rank) const {
  const auto it = reports_.find(rank);
  if (it == reports_.end()) return false;
  const Report& report = it->second;
  if (phase_ == Phase::Proposing) return report.proposed == proposed_.epoch;
  return report.voted && report.decided == decided_.epoch && report.proposed <= proposed_.epoch;
}

Decision Agreement::countVotes() const {
  Decision decision{decided_.epoch + 1, {gone_.begin(), gone_.end()}, {}};
  decision.calls.resize(static_cast<size_t>(nRanks_));
  decision.calls[static_cast<size_t>(rank_)] = call_;
  for (const auto& [rank, report] : reports_) decision.calls[static_cast<size_t>(rank)] = report.call;
  return decision;
}

// ---- Messages.

/// For a receiver that has the calls of epochs up to `kept`.
AgreementMessage Agreement::message(bool order, uint64_t kept) const {
  const bool next = proposed_.epoch > decided_.epoch;
  return {order,
          {gone_.begin(), gone_.end()},
          told(decided_, decided_.epoch > kept),
          told(proposed_, next && proposed_.epoch > kept),
          voted_,
          call_,
          order && coordinator_ == rank_ ? lacking() : std::vector<int>()};
}

void Agreement::report(uint64_t kept) {
  if (coordinator_ != rank_) outgoing_.push_back({{coordinator_}, message(false, kept)});
}

void Agreement::order() {
  std::map<uint64_t, std::vector<int>> byKept;
  for (int rank = 0; rank < nRanks_; ++rank) {
    if (rank == rank_ || gone_.contains(rank)) continue;
    const auto it = reports_.find(rank);
    byKept[it == reports_.end() ? 0 : std::min(it->second.proposed, proposed_.epoch)].push_back(rank);
  }
  for (auto& [kept, ranks] : byKept) outgoing_.push_back({std::move(ranks), message(true, kept)});
}

}  // namespace tutti
