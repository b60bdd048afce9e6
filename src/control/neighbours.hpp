// The overlay's links of one rank: made, missed, made again, given up.
//
// A connection that breaks says little: a process that dies, a firewall that restarts and a wrong bit all end it.  So
// both ends dial at once.  Where nobody listens any more the peer is dead, as listeners live as long as their process;
// where the peer answers, both go on where they were (resumable_link.hpp).  The rank that dials a link always dials it;
// the other one asks it to, by a recall, which finds out the same.
//
// A connection that falls silent may have lost its way alone.  It is made again beside the silent one, by whichever of
// the peer's addresses answers, and the silent one serves until then, in case its way comes back first.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/seldom.hpp"
#include "src/control/diagnosis.hpp"
#include "src/control/dialer.hpp"
#include "src/control/resumable_link.hpp"
#include "src/control/silence.hpp"

namespace tutti {

/// What the links need of the rank that they are of.
class NeighboursHost {
 public:
  virtual ~NeighboursHost() = default;
  virtual bool failed() const = 0;
  virtual void fail(Failure failure) = 0;
  /// What this rank was doing, for error messages: "while rank 1 was in AllReduce".
  virtual std::string during() const = 0;
  virtual ControlAddress controlAddressOf(int rank) const = 0;
  /// Another link stands for both ends, for the first time.
  virtual void linkStands() = 0;
  /// There is no link with this rank any more, nor will there be.
  virtual void lostLink(int rank) = 0;
};

/// A machine without I/O.
class Neighbours {
 public:
  /// The references outlive it.
  Neighbours(NeighboursHost& host, Network& network, LinkAuthentication& authentication, MemberId id,
             const JoinRequest& request);

  // ---- Links
  /// A neighbour's address is known; others are none of its business.
  void setControlAddress(int peer, const ControlAddress& controlAddress);
  /// The address that the neighbour has told, else the one that this rank dials; empty: not known.
  ControlAddress addressOf(int peer) const;
  /// Some neighbour is to be dialed whose address is not known.
  bool lacksAddress() const;
  /// All links stand, or have stood.
  bool allStand() const;
  /// Of one that cannot be dialed in time; nullptr: there is none.
  const Dial* unreachable() { return dialer_.unreachable(dials()); }

  void sendTo(int peer, const std::string& message);
  /// To all but one; -1: to all.
  void flood(const std::string& message, int but);
  /// Say goodbye and close everything.  By rank: what neighbours may lack.
  std::map<int, ResumableLink> leave(const std::string& goodbye);

  // ---- Ranks
  /// Those that have said goodbye, with their last words.
  std::vector<std::pair<int, RankReport>> departed() const;
  /// A neighbour that has not.
  bool misses(int rank) const;
  void onGoodbye(int from, const RankReport& words);
  /// Neighbours that have sent no heartbeat for a while.
  std::vector<int> quiet() const;
  struct Unlinked {
    std::vector<int> ranks;
    std::string how;  // the first did not come about
  };
  /// all: those that should dial us, too.
  Unlinked unlinked(bool all) const;

  // ---- Silence
  void setHosts(std::vector<HostOfRank> hosts) { silences_.setHosts(std::move(hosts)); }
  int64_t silentSinceNs(int rank) const { return silences_.silentSinceNs(rank); }
  /// A message behind its type, and whole.  False: malformed.
  bool onSilence(int from, Reader& in, std::string_view message);

  // ---- Events
  void start();
  bool onProven(LinkId link, const Hello& hello, bool weDialed);
  /// False: of a dial that is not one of these.
  bool onDialFailed(LinkId link, const Status& why);
  void onClosed(LinkId link, const Status& why);
  /// A message was not as its sender sealed it; the link is closed behind this call.
  void onDamage(LinkId link, const Status& why);
  struct Came {
    int from = -1;  // -1: nothing for the owner
    ResumableLink::Came what = ResumableLink::Came::Known;
  };
  Came onMessage(LinkId link, std::string_view message);
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

  std::vector<Dial*> dials();
  void tryDial(int peer, Neighbour& neighbour);
  void dialAgain(int peer, Neighbour& neighbour);
  bool onOverlayProven(LinkId link, const Hello& hello, bool weDialed);
  bool onRecallProven(LinkId link, const Hello& hello, bool weDialed);
  void linked(Neighbour& neighbour, LinkId link, const Hello& hello, bool weDialed);
  void confirm(Neighbour& neighbour);
  void closeLink(Neighbour& neighbour);
  void lost(int peer, const Status& why);
  void mended(int peer, Neighbour& neighbour);
  void dialFailed(int peer, Neighbour& neighbour, const Status& why);
  void giveUpBroken();
  void gone(int peer, const Status& why);
  std::string howMissed(int peer, const Neighbour& neighbour) const;
  // neighbour_silence.cpp
  void lookForSilence();
  void tellSilence();
  void warnOfSilence();
  void breakSilent(Neighbour& neighbour);

  NeighboursHost& host_;
  Network& network_;
  const JoinRequest& request_;
  Dialer dialer_;
  Silences silences_;
  std::map<int, Neighbour> neighbours_;
  int64_t brokenNs_ = kNoTimer;  // the earliest untilNs of all, or earlier
  int64_t heartbeatNs_ = kNoTimer;
  int64_t silenceLookNs_ = kNoTimer;  // once behind every heartbeat
};

}  // namespace tutti
