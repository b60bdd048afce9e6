// The agreements of a communicator's ranks (src/membership), carried: links to any rank, made as they are needed.
//
// The overlay's links do for ranks of which few die; here any may, so every two ranks that have something to say to
// each other have a link of their own.  A goodbye means that the rank is gone.  So does a dial that is refused for a
// while, since every rank's Session outlives its communicators.  A link that breaks is dialed again, and where that is
// refused at once, or not answered in time, the rank is dead; else both say anew how far they are.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "src/control/authentication.hpp"
#include "src/control/dial.hpp"
#include "src/control/overdue.hpp"
#include "src/control/wire.hpp"
#include "src/membership/agreement.hpp"

namespace tutti {

std::string agreementMessage(const AgreementMessage& message);
/// Behind its type.  Errors: RemoteError: malformed.
Result<AgreementMessage> readAgreement(Reader& in);

class Survivors {
 public:
  /// Both references outlive it; control addresses are empty until the ranks are up.
  Survivors(Network& network, LinkAuthentication& authentication, MemberId id, const JoinRequest& request,
            const std::vector<ControlAddress>& controlAddresses);

  void vote(const Vote& vote);
  const Agreement& agreement() const { return agreement_; }
  /// Control addresses are known from now on.
  void up();
  /// The overlay's link with a rank has ended.  Where there is one of ours it has the last word.
  void lostNeighbour(int rank);
  /// Say goodbye and close everything.
  void leave();

  // Events; false: of a link that is not one of these.
  bool onProven(LinkId link, const Hello& hello, bool weDialed);
  bool onDialFailed(LinkId link, const Status& why);
  bool onMessage(LinkId link, std::string_view message);
  bool onClosed(LinkId link, const Status& why);
  int64_t nextTimerNs() const { return std::min({dialNs_, brokenNs_, reminders_.nextNs()}); }
  void onTimer();

 private:
  static constexpr int64_t kRemindNs = 250'000'000;

  struct Peer {
    Dial dial;
    LinkId out = 0, in = 0;  // dialed by us; by the peer
    bool heard = false;      // on `in`, which the peer counts on, then
    bool lost = false;
    bool missed = false;             // messages, perhaps, by a link that has ended
    int64_t brokenNs = kNoTimer;     // when one that has broken must be there again
    std::vector<std::string> queue;  // until `out` stands
  };

  void pump();
  void send(int rank, const std::string& message);
  void tryDial(int rank, Peer& peer);
  void dialIfIdle(int rank, Peer& peer);
  void goOn(int rank, Peer& peer);
  void lose(int rank, const char* why);
  void close(Peer& peer, bool goodbye);

  Network& network_;
  LinkAuthentication& authentication_;
  const MemberId id_;
  const JoinRequest& request_;
  const std::vector<ControlAddress>& controlAddresses_;
  Agreement agreement_;
  bool over_ = false;             // this rank has left, or is excluded
  int64_t dialNs_ = kNoTimer;     // the earliest nextNs of all dials, or earlier
  int64_t brokenNs_ = kNoTimer;   // the same of brokenNs
  Overdue reminders_{kRemindNs};  // when to tell the others whom this rank waits for
  std::map<int, Peer> peers_;
  std::map<LinkId, int> links_;  // whose: proven ones, and dials
};

}  // namespace tutti
