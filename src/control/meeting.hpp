// One rank's way to the rendezvous: dials it, registers, hears addresses, and notices where it is gone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/control/dialer.hpp"
#include "src/control/overdue.hpp"
#include "src/control/rendezvous.hpp"

namespace tutti {

/// " (rendezvous 10.0.0.7:4021)", for errors of joining; "" for a child, whose ranks know each other and meet nowhere.
std::string whereMet(const JoinRequest& request);
/// The error where ranks are missing and neither the rendezvous nor those that have met have said which.
Status someMissing(const JoinRequest& request, int64_t lastedNs);

/// A machine without I/O.  A rank that knows all control addresses beforehand has one that does nothing.
class Meeting {
 public:
  /// The references outlive it.
  Meeting(Network& network, LinkAuthentication& authentication, MemberId id, const JoinRequest& request);

  void start();
  bool is(LinkId link) const { return link_ == link; }
  bool dials(LinkId link) const { return dial_.link == link; }
  /// There is a link to the rendezvous.
  bool linked() const { return link_ != 0; }

  /// Once linked; a failure follows.  patienceNs: how long until the place is to say who has not come; kNoTimer: for
  /// ever.
  void registers(int64_t patienceNs);
  /// The communicator has failed: for those who are there.
  void tell(const Failure& failure);
  /// This rank is up and does not need the place any more.
  void leave(const std::string& goodbye);
  /// It gives up.
  void close();

  /// False: none of its links.
  bool onProven(LinkId link);
  enum class Lacks : uint8_t {
    Nothing,
    Link,           // with a neighbour, whoever of the two dials
    AddressOfPeer,  // of a neighbour that this rank is to dial
  };
  /// lacks: what this rank still needs.  Gives the failure that this is.
  std::optional<Failure> onDialFailed(const Status& why, Lacks lacks);
  void onClosed(const Status& why);
  struct News {
    std::vector<PeerAddress> peers;
    std::optional<Failure> failure;
  };
  News onMessage(std::string_view message);
  /// The rendezvous encrypts and this rank does not, or the other way round.
  Failure unlike() const;

  /// It has yet to say anything.
  bool unanswered() const { return meets_ && !answered_; }
  /// when: "within 5 s".
  std::string noAnswer(const std::string& when) const;
  int64_t nextTimerNs() const;
  void onTimer();

 private:
  bool over() const { return left_ || failure_; }

  Network& network_;
  LinkAuthentication& authentication_;
  const JoinRequest& request_;
  const bool meets_;
  Instance instance_{};
  Dialer dialer_;
  Dial dial_;
  LinkId link_ = 0;
  bool reached_ = false;              // once
  bool answered_ = false;             // and by more than that
  bool left_ = false;                 // this rank is up
  std::optional<Failure> failure_;    // the first that was to be told
  int64_t otherSecretNs_ = kNoTimer;  // since when what answers there has had another secret
  Overdue overdue_;                   // its answer
};

}  // namespace tutti
