// The protocol machine of one rank (or of one rendezvous): joins communicators, gathers, spreads failures.
//
// No I/O, no thread, no clock of its own (see network.hpp).  All calls from one thread at a time; Control serialises
// them with a lock.  Calls never block: they start something and the caller looks at the state later; `changed` is
// called after anything that a waiter might be interested in.
//
//   rendezvous    Every rank dials the rendezvous once, proves the secret by HMAC, says its control address, and is
//   told the
//              control addresses of its overlay neighbours as soon as these are known.  That is the only star; it is
//              closed then.
//   overlay    Ranks r and r + 2^k (mod n), k = 0..: O(log n) links a rank, log n-connected, so that a failure reaches
//              everyone although its rank is gone.
//   gather     All-gather by dissemination over the overlay: ceil(log2 n) steps.
//   failures   A closed overlay link (or a dead process, which the driver reports) is a death; it floods the overlay.
//   agreement  Ranks agree who goes on and what all have called, over links of their own to any rank.
//   inquiry    A rank that waits too long, or sees a message of another call, asks everyone what they are doing; the
//              verdict names the culprit: silent, absent, or different.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/secret.hpp"
#include "src/base/stream_index.hpp"
#include "src/collective/fingerprint.hpp"
#include "src/control/network.hpp"
#include "src/membership/agreement.hpp"

namespace tutti {

/// Names a communicator among all of a job.
using CommId = std::array<unsigned char, 16>;
/// The last bit of a rendezvous' name: it was open before anyone could know of it (a unique id's, as against a place
/// that was agreed upon), so that it is gone where nobody listens.
inline bool openBeforeKnown(const CommId& id) { return (id.back() & 1) != 0; }
inline void setOpenBeforeKnown(CommId* id, bool open) { id->back() = (id->back() & 0xfe) | (open ? 1 : 0); }

/// How a rank joins.
struct JoinRequest {
  CommId commId{};
  Secret secret{};
  bool secretOfUser = false;  // the Session gets it from who serves the rendezvous; not for machines
  int rank = 0;
  int nRanks = 1;
  ControlAddress self;        // where peers reach this Session
  ControlAddress rendezvous;  // first join: the rendezvous
  std::vector<ControlAddress>
      members;       // child communicators: everyone's control address by rank; then `rendezvous` is not used
  std::string info;  // this rank's blob for infos()
  int64_t deadlineNs = kNoTimer;  // for coming up
};

/// A message of a pair that a rank waits to send or to receive.
struct MessageWait {
  int32_t peer = -1;
  bool isSend = false;
  Fingerprint call;  // its sequence counts the pair's messages in this direction, from 0
};
/// Messages that a rank has begun, in this communicator's life.
struct PairCount {
  int32_t peer = -1;
  uint32_t sends = 0, receives = 0;
};
/// More are not told; then a peer that is missing may have some.
inline constexpr size_t kMaxPairCounts = 32;
inline constexpr size_t kMaxElsewhereBytes = 256;
/// A collective of some communicator, by what its ranks know it by and the collective's number, from 1.
struct CommunicatorCall {
  uint64_t communicator = 0;  // 0: none
  uint64_t sequence = 0;
};
inline constexpr size_t kMaxOtherCalls = 32;
/// A call among all ranks that goes by the control plane, and that this rank's caller is in.
enum class Attendance : uint8_t { None, Split, Grow, End };

/// What a rank is doing, for inquiries.  Filled in by the communicator, any thread.
struct RankState {
  uint64_t entered = 0;    // newest collective this rank has entered, counted from 1; 0: none
  bool inside = false;     // it has not left it
  int32_t waitingOn = -1;  // the peer it waits for, -1 if none
  std::vector<std::pair<uint64_t, Fingerprint>> recent;  // the last calls entered, newest last
  std::optional<MessageWait> message;
  std::vector<PairCount> pairs;  // of ranks with which it has exchanged messages; kMaxPairCounts at most
  Attendance attends = Attendance::None;
  std::string elsewhere;  // the call of another communicator that its caller waits in, kMaxElsewhereBytes at most
  // Both only if one thread makes all calls of this rank.  awaited: the collective of another communicator that the
  // thread waits in, if that ends on no rank before all have entered it.  others: the newest call on each communicator.
  CommunicatorCall awaited{};
  std::vector<CommunicatorCall> others{};
  bool oneThread = false;    // the program has no other that could still come to make calls
  bool callerWaits = false;  // that thread waits, in this communicator's collective or message; is not told
  // For monitors:
  uint64_t calls = 0, bytes = 0;  // made so far, messages too
  std::string doing;              // the call that has begun and is not over; "": none
  int64_t doingNs = 0;            // how long it has gone on
};
struct RankReport;  // diagnosis.hpp

/// The host of a rank, for warnings.
struct HostOfRank {
  uint64_t id = 0;  // the same for ranks of one host
  std::string name;
};

enum class InquiryReason : uint8_t {
  Deadline,  // this rank waited until its deadline
  Mismatch,  // a message of another call arrived
  Stalled,   // it has waited for a while: fails only if ranks turn out to disagree or to have left
};

/// The first thing that broke a communicator.  rank: the culprit, -1 if there is no single one.
struct Failure {
  int rank = -1;
  Status status;
  bool onPurpose = false;  // aborted or revoked: communicators that were split from this one end too
};

using MemberId = uint64_t;

class BootstrapNode : public Machine {
 public:
  /// encrypts: as TUTTI_ENCRYPT has it; precondition then: Gcm::available().
  BootstrapNode(Network& network, std::function<void()> changed, bool encrypts = false);
  ~BootstrapNode() override;

  /// Be the rendezvous for everyone who proves `secret` and names `commId`.  Ends by itself when all have met.
  void serveRendezvous(const CommId& commId, const Secret& secret, const std::string& where);
  bool rendezvousDone(const CommId& commId) const;
  /// The process of a rank that was to come to this node's rendezvous has ended, as its launcher says: if it has not
  /// come, all hear so.  how: "ended with status 0".
  void rankEnded(const CommId& commId, int rank, const std::string& how);

  MemberId join(const JoinRequest& request);
  /// A join that has lasted without counting (the process had no core) may take until then, on the clock of nowNs(), if
  /// that is later.
  void putOff(MemberId member, int64_t deadlineNs);
  /// This process had no core, or was stopped, for so long behind nextTimerNs(): where ranks meet here, those that have
  /// come in the meantime are still to be looked at.
  void putOffMeetings(int64_t lateNs);
  /// Ranks wait here for others to come.
  bool meetingsWait() const;
  /// Every rank is up and infos() is filled in.
  bool up(MemberId member) const;
  const std::vector<std::string>& infos(MemberId member) const;
  /// Everyone's control address, by rank.
  const std::vector<ControlAddress>& controlAddresses(MemberId member) const;

  /// Collective: the n-th allGather of every rank belong together.  Returns n.
  uint64_t allGather(MemberId member, std::string blob);
  /// The blobs by rank, or nullptr while they are not all there.  forget() frees them.
  const std::vector<std::string>* gathered(MemberId member, uint64_t n) const;
  void forget(MemberId member, uint64_t n);

  /// Empty while all is well.
  const std::optional<Failure>& failure(MemberId member) const;
  /// The first abort or revocation, also where something else had failed before.
  const std::optional<Failure>& endOnPurpose(MemberId member) const;
  /// Tell everyone that failure.rank has failed (or aborted); becomes failure() everywhere, the first one there.
  void reportFailure(MemberId member, Failure failure);
  void setState(MemberId member, std::function<RankState()> state);
  /// For sentences.  where: of this rank, "communicator 'tp' (process 4711 on node1)"; hosts: by rank.
  void setNames(MemberId member, std::string where, std::vector<HostOfRank> hosts);
  /// Since when this rank's host has answered nothing to some rank that told of it; kNoTimer: it answers.
  int64_t silentSinceNs(MemberId member, int rank) const;
  /// Ask everyone; within graceNs (see putOffVerdict) everybody has a failure(), or, for Stalled, inquiryPending()
  /// turns false.
  void inquire(MemberId member, InquiryReason reason, uint64_t sequence, int suspect, int64_t graceNs);
  /// The wait for which a Stalled inquiry was made is over.  Others that must end in a failure go on.
  void withdrawInquiry(MemberId member);
  bool inquiryPending(MemberId member) const;
  /// A rank that waits for the verdict of its inquiry, which must end in a failure, could not run for so long: the
  /// ranks of its host hardly get a core, and answer as late.
  void putOffVerdict(MemberId member, int64_t lateNs);
  /// By rank: what was answered to this rank's last inquiry that found nothing wrong; empty: there was none.
  const std::vector<std::optional<RankReport>>& lastAnswers(MemberId member) const;

  /// Vote in the next agreement of this communicator's ranks: those who neither died nor left nor were excluded.
  /// It goes on whatever failure() says, and whoever has died.  agreement() has the decision when it is there.
  void vote(MemberId member, const Vote& vote);
  const Agreement& agreement(MemberId member) const;

  /// A stream to `peer`: when both ends are proven, Network::handOver gets it under streamKey(...) on both sides.
  /// The lower rank dials; the higher one waits for the hand-over.  Each index once.
  void dialStream(MemberId member, int peer, StreamIndex index);
  /// Ask a lower peer to dial although nobody there has called dialStream, which then finds it done: ranks may open
  /// their streams in any order without waiting for each other.
  void summonStream(MemberId member, int peer, StreamIndex index);
  static std::string streamKey(const CommId& commId, int peer, StreamIndex index);
  /// What all stream keys of a communicator begin with.
  static std::string streamKeyPrefix(const CommId& commId);
  /// Whether the end of this rank's process is a death: it is a neighbour and has not said goodbye.  Of other ranks
  /// their neighbours know.
  bool endIsDeath(MemberId member, int rank) const;

  /// Dial the rendezvous of `request` (commId, secret, rank, nRanks, rendezvous) until it can be told that this rank
  /// does not come, and why.  Everyone there, and who comes later, then fails with it.
  MemberId tell(const JoinRequest& request, const Failure& why);
  bool told(MemberId notice) const;
  /// Why the last dial failed, ok if none has; InvalidUsage: who listens there has another secret.
  Status trouble(MemberId notice) const;
  /// The notice's id is invalid afterwards.
  void forgetNotice(MemberId notice);

  /// Orderly end: say goodbye to the neighbours and close.  The member id is invalid afterwards.
  void leave(MemberId member);

  void onAccepted(LinkId link) override;
  bool dropStranger() override;
  void onConnected(LinkId link) override;
  void onMessage(LinkId link, std::string_view sealed) override;
  void onClosed(LinkId link, const Status& why) override;
  int64_t nextTimerNs() const override;
  void onTimer() override;
  /// kMaxStrangerBytes until the link has proven the secret; then messages are under seals (sealed_links.hpp).
  size_t messageLimit(LinkId link) const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A secret for a child communicator, HMAC-SHA256(parent, label); and a CommId likewise.
Secret deriveSecret(const Secret& parent, std::string_view label);
CommId deriveCommId(const Secret& parent, std::string_view label);

}  // namespace tutti
