// The rendezvous: where the ranks of a new communicator learn each other's control addresses.
//
//   rank -> place   Register   rank, nRanks, control address, instance (random per join), and after how long the place
//                              is to say who has not come; once more whenever that is put off, which nothing answers
//   place -> rank   Peers      control addresses of the ranks it has to dial, as they become known; the first at once
//   place <-> rank  Failure    the first one is told to all, also to those who come later; who was waited for in vain
//                              and comes then hears that it is too late
//                   (a rank that does not come says no more than its Failure: notice.hpp)
//   rank -> place   Goodbye    this rank is up and does not need the place any more
//
// A rank keeps its link until it is up, so that one that dies while ranks meet is noticed here even if it has no other
// link yet.  Knows no secret: its links are proven.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/control/failure.hpp"
#include "src/control/handshake.hpp"
#include "src/control/network.hpp"
#include "src/control/overdue.hpp"

namespace tutti {

using Instance = std::array<unsigned char, 16>;
inline constexpr size_t kMaxControlAddressBytes = 1024;

struct Registration {
  int rank = 0;
  int nRanks = 0;
  ControlAddress controlAddress;
  Instance instance{};
  int64_t patienceNs = kNoTimer;  // then the place says who has not come; kNoTimer: never
};
std::string registerMessage(const Registration& registration);
/// Behind its type.
Result<Registration> readRegistration(Reader& in);

using PeerAddress = std::pair<int, ControlAddress>;
std::string peersMessage(const std::vector<PeerAddress>& peers);
Result<std::vector<PeerAddress>> readPeers(Reader& in);

class Rendezvous {
 public:
  /// where: for those who are told that somebody has not come there.
  Rendezvous(Network& network, std::string where) : network_(network), where_(std::move(where)) {}

  /// A proven link of the rank named in `hello`.
  void onProven(LinkId link, const Hello& hello);
  void onMessage(LinkId link, std::string_view message);
  void onClosed(LinkId link);
  /// Somebody claims to be a rank and to have another secret: to be mentioned if that rank does not come.
  void onOtherSecret(const Hello& hello);
  /// One who knows the secret begins to prove it by a Hello of this tag.  False: that has been here before, and is
  /// somebody else's record of it.
  bool onHello(const Mac& tag) { return hellos_.insert(tag).second; }
  /// It has closed its link before the proof.
  void onVanished(const Hello& hello);
  /// The rank's process has ended.
  void onEnded(int rank, const std::string& how);
  /// The process that serves the place had no core, or was stopped, for so long, and looks only now at what has come.
  void putOff(int64_t lateNs);
  /// Tell everyone who is here and who comes later; the first failure counts.
  void fail(const Failure& failure);
  /// All have met, or it has failed and nobody is left to be told, or to come for some time yet.
  bool done() const;
  /// Ranks are here and wait for others to come.
  bool waits() const { return nRanks_ > 0 && !failure_ && !allHere(); }
  int64_t nextTimerNs() const;
  void onTimer();

 private:
  struct Seat {
    ControlAddress controlAddress;
    Instance instance{};
    LinkId link = 0;  // 0: lost
    bool up = false;  // it has said goodbye
    int64_t lostNs = kNoTimer;
    int64_t deadlineNs = kNoTimer;  // when to say who is missing
  };

  void onRegister(LinkId link, Reader& in);
  std::optional<Failure> misnumbered(const Registration& r) const;
  void drop(LinkId link);
  void checkEnded();
  Failure lostRank(int rank, const ControlAddress& where) const;
  void sendTargets(int rank);
  void tellFailure(LinkId link, int rank);
  bool allHaveHeard() const { return most_ > 0 && heard_.size() >= static_cast<size_t>(most_); }
  bool allHere() const { return seats_.size() == static_cast<size_t>(nRanks_); }
  std::vector<int> missingRanks() const;
  std::string missing(const std::string& when, const std::string& more = "") const;
  Failure tooLate() const;
  Failure cameTooLate(int rank) const;

  Network& network_;
  const std::string where_;
  int nRanks_ = 0;               // 0: nobody has come
  int firstRank_ = -1;           // who said nRanks_
  int64_t firstNs_ = 0;          // and when
  std::map<LinkId, int> links_;  // proven: rank
  std::map<int, Seat> seats_;
  std::map<int, int64_t> vanished_;   // ranks whose link broke before they had registered, and when they count as gone
  std::map<int, std::string> ended_;  // ranks whose processes have ended, and how; numbers are not checked
  std::set<Mac> hellos_;
  std::set<int> otherSecret_;  // ranks that strangers claimed to be
  std::optional<Failure> failure_;
  int64_t failedNs_ = 0;
  std::set<int> late_;   // who was waited for in vain
  std::set<int> heard_;  // ranks that know of it
  int most_ = 0;         // the largest nRanks that anybody has said
  size_t nUp_ = 0;
  Overdue overdue_;  // ranks that have not come, since the first has
};

}  // namespace tutti
