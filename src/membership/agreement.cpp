#include "src/membership/agreement.hpp"

#include <algorithm>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/text.hpp"

namespace tutti {

namespace {

/// More are not believed, so that the next one has a number.
constexpr uint64_t kMostEpochs = uint64_t{1} << 48;

bool holdsRank(const std::vector<int>& ascending, int rank) {
  return std::binary_search(ascending.begin(), ascending.end(), rank);
}

bool areRanks(const std::vector<int>& ranks, int nRanks) {
  return std::is_sorted(ranks.begin(), ranks.end(), std::less_equal<>()) &&
         (ranks.empty() || (ranks.front() >= 0 && ranks.back() < nRanks));
}

bool makesSense(const Decision& decision, int nRanks) {
  return decision.epoch <= kMostEpochs && areRanks(decision.gone, nRanks) && decision.objector >= -1 &&
         decision.objector < nRanks;
}

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
  anew_ = vote.anew;
  objection_ = vote.objection;
  coordinator_ == rank_ ? coordinate() : report();
}

void Agreement::markGone(int rank) {
  const int before = coordinator_;
  if (excludedBy_ >= 0 || !addGone(rank)) return;
  if (coordinator_ == rank_) {
    if (phase_ != Phase::Idle || voted_) coordinate();
  } else if (coordinator_ != before && voted_) {
    report();
  }
}

bool Agreement::accept(int from, AgreementMessage message) {
  if (from < 0 || from >= nRanks_ || from == rank_) return false;
  if (!areRanks(message.gone, nRanks_) || !makesSense(message.decided, nRanks_) ||
      !makesSense(message.proposed, nRanks_)) {
    return false;
  }
  if (excludedBy_ >= 0) return true;
  const bool takenForGone = holdsRank(message.gone, rank_);
  if (gone_.contains(from)) {
    if (!takenForGone) outgoing_.push_back({from, this->message(true)});  // else both would answer for ever
    return true;
  }
  if (takenForGone) {
    excludedBy_ = from;
    return true;
  }
  for (const int rank : message.gone) addGone(rank);
  if (message.decided.epoch > decided_.epoch) decide(message.decided);
  if (message.proposed.epoch == decided_.epoch + 1) proposed_ = message.proposed;
  if (message.order) {
    report();
  } else if (coordinator_ == rank_) {
    reports_[from] = std::move(message);
    if (suffices(from)) lacking_.erase(from);
    coordinate();
  }
  return true;
}

std::vector<Agreement::Outgoing> Agreement::take() { return std::exchange(outgoing_, {}); }

std::vector<int> Agreement::waitingOn() const {
  if (coordinator_ != rank_) return {coordinator_};
  return {lacking_.begin(), lacking_.end()};
}

/// False: that was known.  This rank itself is never among them.
bool Agreement::addGone(int rank) {
  if (rank == rank_ || !gone_.insert(rank).second) return false;
  // It may live, and wait for this rank.
  if (reports_.erase(rank) > 0 || rank == coordinator_) outgoing_.push_back({rank, message(true)});
  lacking_.erase(rank);
  while (gone_.contains(coordinator_)) ++coordinator_;
  return true;
}

void Agreement::decide(const Decision& decision) {
  TUTTI_ASSERT_CMP(decision.epoch, >, decided_.epoch);
  decided_ = proposed_ = decision;
  voted_ = false;
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
  const AgreementMessage& report = it->second;
  if (phase_ == Phase::Proposing) return report.proposed.epoch == proposed_.epoch;
  return report.voted && report.decided.epoch == decided_.epoch;
}

Decision Agreement::countVotes() const {
  Decision decision{
      decided_.epoch + 1, {gone_.begin(), gone_.end()}, anew_, objection_.empty() ? -1 : rank_, objection_};
  for (const auto& [rank, report] : reports_) {
    decision.anew = decision.anew || report.anew;
    if (report.objection.empty() || (decision.objector >= 0 && decision.objector < rank)) continue;
    decision.objector = rank;
    decision.objection = report.objection;
  }
  return decision;
}

// ---- Messages.

AgreementMessage Agreement::message(bool order) const {
  return {order, {gone_.begin(), gone_.end()}, decided_, proposed_, anew_, voted_, objection_};
}

void Agreement::report() {
  if (coordinator_ != rank_) outgoing_.push_back({coordinator_, message(false)});
}

void Agreement::order() {
  const AgreementMessage same = message(true);
  for (int rank = 0; rank < nRanks_; ++rank)
    if (rank != rank_ && !gone_.contains(rank)) outgoing_.push_back({rank, same});
}

}  // namespace tutti
