// One rank's part of a shrink: which votes, and which communicators it tries to join, until all that are left then have
// the same one.  No I/O, no thread, no clock.
//
//   vote -> decision -> join its members -> vote, with why that failed -> decision ...
//
// Every attempt is of one epoch's members, and the next epoch says what became of it: all have it, or who has not.
// Ranks that die meanwhile are missing from that decision, so that all try again together, under another name.  So do
// they where a decision counts another call of some rank: one that was ended by the failure which others shrink after.
#pragma once

#include "src/membership/agreement.hpp"

namespace tutti {

class Shrink {
 public:
  enum class Next : uint8_t { Vote, Join, End };

  /// aborts: the parent has failed, or is in use.
  Shrink(int nRanks, std::vector<int> excluded, bool aborts);

  Next next() const { return next_; }
  /// Next::Vote.
  const Vote& vote() const { return vote_; }
  void onDecision(const Decision& decision);
  /// Next::Join: ranks of the parent by their rank in the child, and its name.  What was joined before is void.
  const std::vector<int>& members() const { return members_; }
  const std::string& label() const { return label_; }
  void onJoined(const Status& joined);
  /// Next::End; ok: with the child that was joined last.
  const Status& outcome() const { return outcome_; }

 private:
  void voteAnew();
  void end(const Status& outcome);

  const int nRanks_;
  const bool aborts_;
  Next next_ = Next::Vote;
  Vote vote_;
  std::vector<int> members_;  // of the newest attempt
  std::string label_;
  bool again_ = false;  // the second attempt of the same members
  Status joined_, outcome_;
};

}  // namespace tutti
