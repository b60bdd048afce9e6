// Which ranks' devices can use each other's memory: links between those are of devices, all others pass through hosts.
#pragma once

#include <string>
#include <vector>

#include "src/comm/peer_descriptor.hpp"

namespace tutti {

/// Symmetric, and the same on all ranks.  A value.
class DeviceReach {
 public:
  /// No rank reaches another.
  DeviceReach() = default;
  /// As far as descriptors tell; memory of other processes has yet to be tried.
  explicit DeviceReach(const std::vector<PeerDescriptor>& descriptors);

  int nRanks() const { return static_cast<int>(nRanks_); }
  bool joins(int a, int b) const { return !joined_.empty() && joined_[index(a, b)]; }
  /// Why some two ranks do not reach each other; "": all do.
  const std::string& obstacle() const { return obstacle_; }
  /// Whether ranks of different processes do.
  bool crossesProcesses() const { return crossesProcesses_; }
  /// Ranks that reach another one: of the one that reaches most.
  int mostPeers() const;
  /// They do not, for this reason.
  void cut(int a, int b, const std::string& why);

 private:
  size_t index(int a, int b) const { return static_cast<size_t>(a) * nRanks_ + static_cast<size_t>(b); }

  size_t nRanks_ = 0;
  std::vector<bool> joined_;  // [a * nRanks_ + b]
  std::string obstacle_;
  bool crossesProcesses_ = false;
};

/// A rank of every other process that `rank` reaches, the lowest of each.
std::vector<int> processesToTry(const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors, int rank);

/// The ranks of processesToTry() whose memory a rank could not open, with the reasons.
using Refusals = std::vector<std::pair<int, std::string>>;
std::string encodeRefusals(const Refusals& refusals);
/// Cuts what `rank` has told: all ranks of those processes.  Errors: RemoteError: it makes no sense.
Status cutRefused(int rank, const std::string& told, const std::vector<PeerDescriptor>& descriptors,
                  DeviceReach* reach);

}  // namespace tutti
