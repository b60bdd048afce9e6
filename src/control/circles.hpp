// Ranks that wait for each other for ever by way of several communicators, no two of which need share ranks: a grid
// whose rows and columns are used in another order by one rank.  Inquiries see one communicator each, so the waits are
// followed by a message (Chandy, Misra, Haas, "Distributed deadlock detection", ACM TOCS 1(2), 1983).
//
//   A process with one thread, which waits in a call that cannot end before a rank of another process has made a call,
//   sends a chain of waits in that communicator.  A process that is one of those ranks, whose only thread waits, too,
//   in whatever communicator, adds its own wait and sends the chain on there.  One that finds itself in the chain, in
//   the wait that the chain has, has closed a circle: it sends that round once more, and all its communicators fail.
//
// That is sure: each process looked at its wait before it looked at what it lacked, the first has waited in one call
// all along, and each of the others can have gone on only after the one behind it has.  It is no danger, therefore,
// that they looked at different times.  The communicators of one Session count, those that were split or shrunk from
// one.
//
// A machine without I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/control/bootstrap_node.hpp"
#include "src/control/wire.hpp"

namespace tutti {

/// What the only thread of a process waits in.
struct Hop {
  uint64_t process = 0;  // random
  CommId commId{};
  int32_t rank = 0;       // of the process, in that communicator
  int32_t entered = -1;   // and in that of the hop before it: -1 of the first
  int32_t peer = -1;      // in a Recv from this rank; -1: in a collective that takes every rank
  uint64_t sequence = 0;  // the collective's, or the message's of the pair
  std::string text{};     // "AllReduce number 2 (count 4, float, sum)"
  std::string where{};    // "communicator 'tp' (process 4711 on node1)"

  bool sameWait(const Hop& other) const {
    return process == other.process && commId == other.commId && peer == other.peer && sequence == other.sequence;
  }
};
struct Chain {
  bool closed = false;  // the first hop is what the last one waits for
  uint64_t number = 0;  // of the chains that its first process has begun
  std::vector<Hop> hops{};
};
/// Longer ones are not followed.
inline constexpr size_t kMostHops = 16;
inline constexpr size_t kMostHopBytes = 128;  // of each text

void writeChain(Writer& out, const Chain& chain);
Chain readChain(Reader& in);

class Circles {
 public:
  struct Hooks {
    /// The wait of this process's only thread, and the member it waits in; none: it waits in nothing, or has company.
    std::function<std::optional<std::pair<MemberId, Hop>>()> wait;
    /// Whether a wait in this member's communicator needs what its rank has not done.
    std::function<bool(MemberId, const Hop&)> lacks;
    /// This member's rank.
    std::function<int(MemberId)> rankOf;
    std::function<bool(MemberId)> failed;
    std::function<void(MemberId, const Chain&)> send;
    std::function<void(MemberId, const Failure&)> fail;
  };
  explicit Circles(Hooks hooks) : hooks_(std::move(hooks)) {}

  /// In this member's communicator some rank is missing that waits elsewhere.
  void begin(MemberId member);
  /// A chain has come, in this member's communicator.
  void onChain(MemberId member, Chain chain);

 private:
  /// A chain that was sent on.  Others of its name come by other ways, and lead nowhere else.
  struct Passed {
    uint64_t process = 0, number = 0;
    bool operator==(const Passed&) const = default;
  };
  void onClosed(MemberId to, const Chain& chain);

  Hooks hooks_;
  std::deque<Passed> passed_;  // the newest last
  uint64_t begun_ = 0;
};

}  // namespace tutti
