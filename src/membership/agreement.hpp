// Agreement among the ranks of one communicator that are left: who goes on, and what every one of them has called.
//
// One rank's part of it, without I/O, thread or clock: calls and messages in, messages out (take()).  Agreements of one
// communicator are numbered from 1, their epoch.  All ranks that get the decision of an epoch get the same one.
//
//   report   every rank -> coordinator: its vote in the next epoch, and what it knows of this one and of the last
//   order    coordinator -> all: the newest decision, and the proposal for the next, which its receivers keep
//
// The coordinator is the lowest rank that is not gone.  It asks all (order), waits for the votes of all that are not
// gone (reports), proposes (order), waits until all of them keep the proposal (reports), decides and says so (order).
// When it dies the next one asks all again: a decision that any rank has, else a proposal that any rank keeps, is what
// it goes on with.  All proposals of an epoch are the same, since nobody makes one before all have said what they keep.
// A decision is kept as a proposal by all others, so that one who has it may leave at once.
// Dwork & Skeen, "The inherent cost of nonblocking commitment", PODC 1983 (three phases); Bouteiller et al.,
// "Plan B: interruption of ongoing MPI operations to support failure recovery", EuroMPI 2015 (what survivors need).
//
// A rank that is gone (dead, left, excluded by somebody's vote) stays so.  Every message carries the sender's list, and
// the receiver adds it to its own.  Messages of those who are gone are answered with that list, and otherwise not
// heard: a living rank that was taken for dead is told so (excludedBy()) and must end its links.  Wanted of links:
// messages of two ranks arrive in order; where some were lost goOnWith() follows, and markGone() when one end dies. Two
// groups of living ranks that hold each other for dead, with nobody in between, decide apart.
//
// An order also lists the ranks that the coordinator waits for, and is repeated while it waits (remind()). Ranks use
// the list in sentences alone. A repeated order is what goOnWith() sends, and changes nothing.
//
// Messages per epoch: 5(n-1).  Time: 4 delays from the last vote.  Bytes: the coordinator sends every rank the calls of
// all ranks once; all else names what the receiver has by its epoch.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/membership/call.hpp"

namespace tutti {

/// What a rank wants of the next epoch.
struct Vote {
  std::vector<int> excluded{};  // ranks that shall not go on; not this one
  MembershipCall call{};
};

/// The outcome of an epoch, the same on all ranks.
struct Decision {
  uint64_t epoch = 0;                   // 0: none
  std::vector<int> gone{};              // ascending; all others have voted
  std::vector<MembershipCall> calls{};  // by rank; None for those gone.  In messages, empty: the receiver has them
  bool operator==(const Decision&) const = default;
};

/// Ranks of nRanks that go on, ascending.
std::vector<int> membersAfter(const Decision& decision, int nRanks);
/// A name for a communicator of those ranks: different for every kind, epoch, and list of members.
std::string childLabel(std::string_view kind, uint64_t epoch, const std::vector<int>& members);

struct AgreementMessage {
  bool order = false;          // else a report
  std::vector<int> gone{};     // ascending
  Decision decided{};          // the sender's newest
  Decision proposed{};         // the newest proposal that the sender keeps: of the epoch of `decided`, or of the next
  bool voted = false;          // reports: in the epoch behind that of `decided`
  MembershipCall call{};       // the vote's
  std::vector<int> lacking{};  // orders: whose votes or answers the sender waits for, ascending
  bool operator==(const AgreementMessage&) const = default;
};

class Agreement {
 public:
  Agreement(int rank, int nRanks) : rank_(rank), nRanks_(nRanks) {}

  /// Vote in the next epoch; once more before its decision: the vote is replaced if it has not been counted yet.
  void vote(const Vote& vote);
  /// The rank has died or left: it will send no more.
  void markGone(int rank);
  /// Messages of this rank to that one, or of that one to this, may have been lost, and come from now on again.
  void goOnWith(int rank);
  /// This rank is the coordinator, and some rank waits with it.
  bool leads() const;
  /// Tell all whom this rank waits for.  Precondition: leads().
  void remind() { order(); }
  /// A message of another rank of this communicator.  False: it makes no sense.
  bool accept(int from, AgreementMessage message);

  struct Outgoing {
    std::vector<int> to;
    AgreementMessage message;
  };
  /// What is to be sent; each once, in this order.
  std::vector<Outgoing> take();

  /// The newest; its epoch grows.
  const Decision& decided() const { return decided_; }
  /// Epochs that this rank has voted in, the one that is under way included.
  uint64_t entered() const { return decided_.epoch + (voted_ ? 1 : 0); }
  /// The others go on without this rank; it gets no decision any more.  -1: not so; else who said it.
  int excludedBy() const { return excludedBy_; }
  bool isGone(int rank) const { return gone_.contains(rank); }
  /// Whom this rank waits for: those whose votes or answers the coordinator lacks, as far as it has said so to this
  /// rank; else the coordinator.
  std::vector<int> waitingOn() const;

 private:
  enum class Phase : uint8_t { Idle, Voting, Proposing };  // of the coordinator
  struct Report {                                          // the newest of a rank
    uint64_t decided = 0, proposed = 0;                    // epochs
    bool voted = false;
    MembershipCall call{};
  };

  bool addGone(int rank);
  bool learn(AgreementMessage* message);
  void decide(const Decision& decision);
  void coordinate();
  void enter(Phase phase);
  bool suffices(int rank) const;
  std::vector<int> lacking() const;
  Decision countVotes() const;
  AgreementMessage message(bool order, uint64_t kept) const;
  void report(uint64_t kept);
  void order();

  const int rank_, nRanks_;
  int coordinator_ = 0;
  std::set<int> gone_;
  int excludedBy_ = -1;
  Decision decided_;
  Decision proposed_;  // the newest that was seen, decided or not
  bool voted_ = false;
  MembershipCall call_;
  std::vector<int> told_;  // whom the coordinator waits for, in its last order
  std::vector<Outgoing> outgoing_;
  // The coordinator's:
  Phase phase_ = Phase::Idle;
  std::map<int, Report> reports_;
  std::set<int> lacking_;  // whose reports do not suffice for the phase
};

}  // namespace tutti
