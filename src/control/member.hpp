// One rank's membership in one communicator: its links to neighbours, its gathers, its first failure, its inquiries.
// The BootstrapNode owns members and brings them their links and messages; the contract of the public calls is in
// bootstrap_node.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/base/seldom.hpp"
#include "src/control/authentication.hpp"
#include "src/control/circles.hpp"
#include "src/control/dial.hpp"
#include "src/control/gather.hpp"
#include "src/control/inquiry.hpp"
#include "src/control/overdue.hpp"
#include "src/control/rendezvous.hpp"
#include "src/control/resumable_link.hpp"
#include "src/control/silence.hpp"
#include "src/control/survivors.hpp"

namespace tutti {

/// What remains of a member that has left, for ranks that ask for it later.
struct Departed {
  CommId commId{};
  Secret secret{};
  int rank = 0;
  std::optional<Failure> failure;
  RankReport lastWords;
  std::map<int, ResumableLink> rest{};  // by rank: what neighbours may lack
};
std::string goodbyeMessage(const RankReport& lastWords);

class Member : private InquiryHost {
 public:
  Member(Network& network, LinkAuthentication& authentication, Circles& circles, MemberId id, JoinRequest request);

  void start();
  bool up() const { return up_; }
  /// As BootstrapNode::putOff.
  void putOff(int64_t deadlineNs);
  const std::vector<std::string>& infos() const { return infos_; }
  const std::vector<ControlAddress>& controlAddresses() const { return controlAddresses_; }
  const JoinRequest& request() const { return request_; }

  uint64_t allGather(std::string blob);
  const std::vector<std::string>* gathered(uint64_t n) const;
  void forget(uint64_t n);

  const std::optional<Failure>& failure() const { return failure_; }
  const std::optional<Failure>& endOnPurpose() const { return endOnPurpose_; }
  void fail(Failure failure);
  void setState(std::function<RankState()> state) { state_ = std::move(state); }
  void setNames(std::string where, std::vector<HostOfRank> hosts) {
    where_ = std::move(where);
    silences_.setHosts(std::move(hosts));
  }
  int64_t silentSinceNs(int rank) const { return silences_.silentSinceNs(rank); }
  void inquire(InquiryReason reason, uint64_t sequence, int suspect, int64_t graceNs);
  bool inquiryPending() const { return inquiry_.pending(); }
  void putOffVerdict(int64_t lateNs) { inquiry_.putOff(lateNs); }
  const std::vector<std::optional<RankReport>>& lastAnswers() const { return inquiry_.lastAnswers(); }
  void dialStream(int peer, StreamIndex index);
  void summonStream(int peer, StreamIndex index);
  /// A neighbour that has not said goodbye.
  bool endIsDeath(int rank) const {
    const auto it = neighbours_.find(rank);
    return it != neighbours_.end() && !it->second.departed;
  }
  /// What the program's only thread waits in, if that is a call of this communicator which ends by a deed of others.
  std::optional<Hop> wait() const;
  /// Whether such a wait of another rank needs what this rank has not done.
  bool lacks(const Hop& hop) const;
  void sendChain(const Chain& chain);
  void vote(const Vote& vote) { survivors_.vote(vote); }
  const Agreement& agreement() const { return survivors_.agreement(); }
  /// Say goodbye and close everything.
  Departed leave();

  // From the BootstrapNode.  All links are proven ones; onProven says whether the member takes the link.
  bool onProven(LinkId link, const Hello& hello, bool weDialed);
  void onDialFailed(LinkId link, const Status& why);
  void onMessage(LinkId link, std::string_view message);
  void onClosed(LinkId link, const Status& why);
  /// A message was not as its sender sealed it; the link is closed behind this call.
  void onDamage(LinkId link, const Status& why);
  /// The rendezvous encrypts and this rank does not, or the other way round.
  void onUnlike();
  int64_t nextTimerNs() const;
  void onTimer();

 private:
  /// A link that has ended and is to be made again.
  struct Break {
    Status why;
    int64_t sinceNs = kNoTimer, untilNs = kNoTimer;
  };
  struct Neighbour {
    bool weDial = false;
    Dial dial{};  // of the link; where the peer dials that, of a recall
    ResumableLink link;
    StreamIndex made = 0;    // connections of it, as both ends count them
    bool confirmed = false;  // it stands for both ends, or has stood; from then on it is missed
    Break broken{};
    int64_t heardNs = 0, mendedNs = INT64_MIN / 2;
    Seldom mends{};
    int64_t silentNs = kNoTimer;           // since when the link is seen to be silent
    std::optional<RankReport> departed{};  // its goodbye
  };
  struct Exchange {
    Gather gather;
    bool forgotten = false;
  };

  // member.cpp: gathers and messages
  Exchange& exchange(uint64_t n);
  void startExchange(uint64_t n, std::string blob);
  void advance(uint64_t n);
  void finishJoin();
  void checkDeparted(uint64_t n);
  bool onOverlayMessage(int from, std::string_view message);
  bool onGatherPart(int from, Reader& in);
  bool onWaits(int from, Reader in, std::string_view message);
  void onGoodbye(int from, Reader& in);
  void onRendezvousMessage(std::string_view message);
  std::string during() const;
  bool failUnreachable();
  bool unanswered() const;
  std::string noAnswer(const std::string& when) const;
  void joinTooLate(bool last);
  std::string howMissed(int peer, const Neighbour& neighbour) const;
  void checkJoin();
  int64_t joinMarginNs() const;
  void registerAtPlace();

  // member_links.cpp: dials and links; overlay_links.cpp: those of neighbours
  void tryDial(Dial& dial);
  void tryDial(int peer, Neighbour& neighbour);
  void retryDial(Dial& dial, const Status& why);
  std::vector<Dial*> dials();
  void setControlAddress(int peer, const ControlAddress& controlAddress);
  void dialFor(Purpose purpose, int peer, StreamIndex index);
  bool onStreamProven(LinkId link, const Hello& hello, bool weDialed);
  bool onOverlayProven(LinkId link, const Hello& hello, bool weDialed);
  bool onRecallProven(LinkId link, const Hello& hello, bool weDialed);
  void linked(int peer, LinkId link, const Hello& hello, bool weDialed);
  void confirm(Neighbour& neighbour);
  void closeLink(Neighbour& neighbour);
  void lostNeighbour(int peer, const Status& why);
  void dialAgain(int peer, Neighbour& neighbour);
  void mended(int peer, Neighbour& neighbour);
  void onNeighbourDialFailed(int peer, const Status& why);
  void goneNeighbour(int peer, const Status& why);
  void giveUpBroken();
  void lookForSilence();
  void tellSilence();
  void warnOfSilence();
  void breakSilent(Neighbour& neighbour);
  bool rendezvousNeeded() const;
  void onRendezvousDialFailed(const Status& why);
  ControlAddress controlAddressOf(int peer) const;

  // InquiryHost
  int64_t nowNs() const override { return network_.nowNs(); }
  RankReport report() const override;
  void flood(const std::string& message, int but) override;
  void sendTo(int neighbour, const std::string& message) override;
  std::vector<std::pair<int, RankReport>> departed() const override;
  std::vector<int> quiet() const override;
  bool waitsLong() const override;
  void suspect(const Failure& failure) override;
  void allIsWell(const std::vector<std::optional<RankReport>>& answers) override;
  void conclude(const Failure& failure) override { fail(failure); }
  void noteStall();

  Network& network_;
  LinkAuthentication& authentication_;
  Circles& circles_;
  const MemberId id_;
  const JoinRequest request_;
  Instance instance_{};
  bool up_ = false;
  std::vector<std::string> infos_;
  std::vector<ControlAddress> controlAddresses_;  // all of them once up
  std::map<int, Neighbour> neighbours_;
  Dial rendezvousDial_;
  LinkId rendezvousLink_ = 0;
  bool registered_ = false;                           // the rendezvous has been reached once
  bool told_ = false;                                 // and has answered
  int64_t otherSecretNs_ = kNoTimer;                  // since when what answers there has had another secret
  int64_t dialNs_ = kNoTimer;                         // the earliest nextNs of all dials, or earlier
  int64_t brokenNs_ = kNoTimer;                       // the earliest untilNs of all neighbours, or earlier
  std::vector<Dial> streams_;                         // and summons
  std::set<std::pair<int, StreamIndex>> dialed_;      // streams by peer and index, each dialed once
  std::vector<std::pair<int, StreamIndex>> summons_;  // that came before we were up
  std::map<uint64_t, Exchange> exchanges_;            // 0 is that of joining
  uint64_t nextExchange_ = 1;
  std::optional<Failure> failure_, endOnPurpose_;  // the first of each
  std::function<RankState()> state_;
  Inquiry inquiry_;
  Survivors survivors_;
  Silences silences_;
  int64_t beganNs_ = 0;
  int64_t heartbeatNs_ = 0;
  int64_t silenceLookNs_ = kNoTimer;  // once behind every heartbeat
  int64_t joinDeadlineNs_;
  int64_t toldDeadlineNs_ = kNoTimer;  // as the rendezvous knows it
  int64_t joinCheckNs_ = kNoTimer;
  int joinChecks_ = 0;
  Overdue overdue_;  // the rendezvous' answer
  // The wait that is asked about: what this rank has done before, since when, and when it was last asked about.
  struct Stall {
    uint64_t entered = 0, gathers = 0, message = 0;
    int64_t sinceNs = 0, lastNs = 0;
  } stall_;
  std::string where_;  // of this rank, in chains of waits
  uint64_t nextChain_ = 1;
  std::map<int, uint64_t> newestChain_;  // by rank
  std::set<int> suspected_;              // ranks that a warning has named
};

}  // namespace tutti
