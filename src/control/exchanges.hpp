// The all-gathers of one rank, by number; number 0 is that of joining.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/control/gather.hpp"

namespace tutti {

/// A machine without I/O.
class Exchanges {
 public:
  static constexpr uint64_t kJoining = 0;

  /// send: to a neighbour.
  Exchanges(int rank, int nRanks, std::function<void(int to, const std::string&)> send)
      : rank_(rank), nRanks_(nRanks), send_(std::move(send)) {}

  /// The number of the next one that this rank starts.
  uint64_t next() { return next_++; }
  void start(uint64_t n, std::string blob);
  /// A part from a neighbour.  False: of none that can be under way, or malformed.
  bool accept(int from, uint64_t n, Reader& in);
  /// The blobs by rank, or nullptr while they are not all there.
  const std::vector<std::string>* gathered(uint64_t n) const;
  /// now: others need nothing more of it.  Else it stays until it is complete.
  void forget(uint64_t n, bool now);
  /// All ranks are up.
  void joined();

  /// The first that this rank has started and that still needs this one.
  std::optional<uint64_t> needing(int peer) const;
  struct Standing {
    uint64_t gathers = 0;  // the one that is waited for, or the last
    int waitingOn = -1;
  };
  Standing standing() const;
  /// While joining: the rank that is waited for (-1: none), and all whose information has not come.
  int waitingOnToJoin() const;
  std::vector<int> missingToJoin() const;

 private:
  struct Exchange {
    Gather gather;
    bool forgotten = false;
  };
  Exchange& at(uint64_t n);
  void advance(uint64_t n);

  const int rank_, nRanks_;
  const std::function<void(int, const std::string&)> send_;
  std::map<uint64_t, Exchange> exchanges_;
  uint64_t next_ = 1;
  bool joined_ = false;
};

}  // namespace tutti
