#include "src/membership/shrink.hpp"

#include <algorithm>

#include "src/base/assert.hpp"
#include "src/base/text.hpp"

namespace tutti {

Shrink::Shrink(int nRanks, std::vector<int> excluded, bool aborts) : nRanks_(nRanks), aborts_(aborts) {
  vote_.excluded = std::move(excluded);
  voteAnew();
}

void Shrink::onDecision(const Decision& decision) {
  TUTTI_ASSERT(next_ == Next::Vote);
  const auto any = [&](bool MembershipCall::*flag) {
    return std::any_of(decision.calls.begin(), decision.calls.end(), [&](const auto& call) { return call.*flag; });
  };
  if (!allCalled(decision, MembershipCall::Kind::Shrink)) {
    if (aborts_ || any(&MembershipCall::aborts)) return voteAnew();
    return end(disagreement(decision));
  }
  const std::vector<int> members = membersAfter(decision, nRanks_);
  const bool begins = members != members_ || any(&MembershipCall::anew);
  const bool objected = std::any_of(members.begin(), members.end(),
                                    [&](int rank) { return !decision.calls[static_cast<size_t>(rank)].text.empty(); });
  // A rank that voted and died is missing only from the next decision: an objection counts when it comes again.
  if (begins || (objected && !again_)) {
    again_ = !begins;
    members_ = members;
    label_ = childLabel("shrink", decision.epoch, members);
    next_ = Next::Join;
    return;
  }
  for (const int rank : members) {
    const std::string& objection = decision.calls[static_cast<size_t>(rank)].text;
    if (objection.empty()) continue;
    if (!joined_.ok()) return end(joined_);
    return end(remoteError(ErrorCode::CannotJoin, "rank ", rank, " (of the parent) could not join: ", objection));
  }
  end(joined_);
}

void Shrink::onJoined(const Status& joined) {
  TUTTI_ASSERT(next_ == Next::Join);
  joined_ = joined;
  next_ = Next::Vote;
  vote_.call = {.kind = MembershipCall::Kind::Shrink, .aborts = aborts_};
  vote_.call.text = joined.ok() ? "" : joined.text(kMaxCallBytes);
}

void Shrink::voteAnew() {
  next_ = Next::Vote;
  members_.clear();
  vote_.call = {.kind = MembershipCall::Kind::Shrink, .anew = true, .aborts = aborts_};
}

void Shrink::end(const Status& outcome) {
  next_ = Next::End;
  outcome_ = outcome;
}

}  // namespace tutti
