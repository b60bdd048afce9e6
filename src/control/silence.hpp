// Hosts that have fallen silent, as the ranks of a communicator tell each other: known long before they count as dead.
//
// A rank tells all others which of its neighbours' hosts acknowledge nothing; each message says all that its sender
// finds, so that the newest one counts and none has to be taken back.  Every rank then warns, by the host's name and
// its ranks.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/seldom.hpp"
#include "src/control/bootstrap_node.hpp"
#include "src/control/wire.hpp"

namespace tutti {

/// A neighbour that was last heard so long ago is told of, if its host acknowledges nothing.  A cable that is pulled
/// for less is nobody's business.
inline constexpr int64_t kSilenceToldNs = 2'000'000'000;

class Silences {
 public:
  /// What one rank finds: since how many milliseconds each of these ranks has said nothing.
  using Found = std::map<int, int64_t>;
  /// addressOf: for ranks whose host has no name here.
  Silences(int rank, int nRanks, std::function<std::string(int rank)> addressOf)
      : rank_(rank), nRanks_(nRanks), addressOf_(std::move(addressOf)) {}

  /// The host of each rank.  Sentences have addresses instead until these are known.
  void setHosts(std::vector<HostOfRank> hosts) { hosts_ = std::move(hosts); }

  /// Takes what this rank finds now, and returns a message for all others if that differs from what it last told.
  std::optional<std::string> find(const Found& found, int64_t nowNs);
  /// A message behind its type.  True: it is news, to be handed on.  Empty: malformed.
  std::optional<bool> onMessage(Reader& in, int64_t nowNs);

  /// What is to be said of it since the last call, a line each.
  std::vector<std::string> takeWarnings() { return std::exchange(warnings_, {}); }
  /// Since when a rank's host has answered some rank nothing; kNoTimer: it answers.
  int64_t silentSinceNs(int rank) const;

 private:
  struct Witness {
    uint64_t number = 0;             // of its newest message
    std::map<int, int64_t> sinceNs;  // by silent rank
  };
  void take(int by, uint64_t number, const Found& found, int64_t nowNs);
  void warnOf(int rank, int by, int64_t ms, int64_t nowNs);
  std::vector<int> ranksWith(int rank) const;
  std::string placeOf(int rank) const;
  bool isSilent(int rank) const { return silentSinceNs(rank) != kNoTimer; }

  const int rank_, nRanks_;
  const std::function<std::string(int)> addressOf_;
  std::vector<HostOfRank> hosts_;
  std::map<int, Witness> witnesses_;
  std::map<int, bool> told_;      // by the first rank of a host that is silent: whether a warning has said so
  std::map<int, Seldom> seldom_;  // warnings, likewise
  std::vector<std::string> warnings_;
};

}  // namespace tutti
