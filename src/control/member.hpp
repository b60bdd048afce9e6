// One rank's membership in one communicator: the machines that it is made of, and its first failure.
// The BootstrapNode owns members and brings them their links and messages; the contract of the public calls is in
// bootstrap_node.hpp.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/control/circles.hpp"
#include "src/control/exchanges.hpp"
#include "src/control/inquiry.hpp"
#include "src/control/join_watch.hpp"
#include "src/control/meeting.hpp"
#include "src/control/neighbours.hpp"
#include "src/control/stall.hpp"
#include "src/control/stream_dials.hpp"
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

class Member : private InquiryHost, private NeighboursHost {
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
  const std::vector<std::string>* gathered(uint64_t n) const { return exchanges_.gathered(n); }
  void forget(uint64_t n) { exchanges_.forget(n, failure_.has_value()); }

  const std::optional<Failure>& failure() const { return failure_; }
  const std::optional<Failure>& endOnPurpose() const { return endOnPurpose_; }
  void fail(Failure failure) override;
  void setState(std::function<RankState()> state) { state_ = std::move(state); }
  void setNames(std::string where, std::vector<HostOfRank> hosts) {
    where_ = std::move(where);
    neighbours_.setHosts(std::move(hosts));
  }
  int64_t silentSinceNs(int rank) const { return neighbours_.silentSinceNs(rank); }
  void inquire(InquiryReason reason, uint64_t sequence, int suspect, int64_t graceNs);
  void withdrawInquiry() { inquiry_.withdraw(); }
  bool inquiryPending() const { return inquiry_.pending(); }
  void putOffVerdict(int64_t lateNs) { inquiry_.putOff(lateNs); }
  const std::vector<std::optional<RankReport>>& lastAnswers() const { return inquiry_.lastAnswers(); }
  void dialStream(int peer, StreamIndex index) { streams_.dial(peer, index); }
  void summonStream(int peer, StreamIndex index) { streams_.summon(peer, index); }
  /// A neighbour that has not said goodbye.
  bool endIsDeath(int rank) const { return neighbours_.misses(rank); }
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
  void onDamage(LinkId link, const Status& why) { neighbours_.onDamage(link, why); }
  /// The rendezvous encrypts and this rank does not, or the other way round.
  void onUnlike() { fail(meeting_.unlike()); }
  int64_t nextTimerNs() const;
  void onTimer();

 private:
  // member_join.cpp
  void checkJoin();
  void joinTooLate(bool last);
  std::string lasted() const;
  void linkStands() override;  // NeighboursHost

  // Exchanges and messages
  void startExchange(uint64_t n, std::string blob);
  void checkDeparted();
  bool onOverlayMessage(int from, std::string_view message);
  bool onGatherPart(int from, Reader& in);
  bool onWaits(int from, Reader in, std::string_view message);
  void onGoodbye(int from, Reader& in);
  bool onMeetingProven(LinkId link);
  void onMeetingMessage(std::string_view message);
  bool failUnreachable();

  // InquiryHost
  int64_t nowNs() const override { return network_.nowNs(); }
  RankReport report() const override;
  void flood(const std::string& message, int but) override { neighbours_.flood(message, but); }
  void sendTo(int neighbour, const std::string& message) override { neighbours_.sendTo(neighbour, message); }
  std::vector<std::pair<int, RankReport>> departed() const override { return neighbours_.departed(); }
  std::vector<int> quiet() const override { return neighbours_.quiet(); }
  bool waitsLong() const override { return stall_.isLong(nowNs()); }
  void suspect(const Failure& failure) override;
  void allIsWell(const std::vector<std::optional<RankReport>>& answers) override;
  void conclude(const Failure& failure) override { fail(failure); }

  // NeighboursHost
  bool failed() const override { return failure_.has_value(); }
  std::string during() const override;
  ControlAddress controlAddressOf(int rank) const override;
  void lostLink(int rank) override { survivors_.lostNeighbour(rank); }

  Network& network_;
  LinkAuthentication& authentication_;
  Circles& circles_;
  const MemberId id_;
  const JoinRequest request_;
  bool up_ = false;
  std::vector<std::string> infos_;
  std::vector<ControlAddress> controlAddresses_;   // all of them once up
  std::optional<Failure> failure_, endOnPurpose_;  // the first of each
  std::function<RankState()> state_;
  JoinWatch joinWatch_;
  Meeting meeting_;
  Neighbours neighbours_;
  StreamDials streams_;
  Exchanges exchanges_;
  Inquiry inquiry_;
  Survivors survivors_;
  Stall stall_;
  std::string where_;  // of this rank, in chains of waits
  uint64_t nextChain_ = 1;
  std::map<int, uint64_t> newestChain_;  // by rank
};

}  // namespace tutti
