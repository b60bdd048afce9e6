// Bytes and messages of a call, counted on the schedules of all ranks: by rank, and by class of link.
#pragma once

#include <array>
#include <vector>

#include "tools/cluster/task.hpp"

namespace tutti::sim {

enum class LinkClass {
  Node,    // inside a node
  Leaf,    // between nodes, by their ports and one switch
  Fabric,  // between nodes, also over links of the fabric itself: a spine, a torus, groups
};
inline constexpr int kNumLinkClasses = 3;
const char* linkClassName(LinkClass which);

struct Amount {
  int64_t messages = 0;
  double bytes = 0;
  bool operator==(const Amount&) const = default;
};

struct RankTraffic {
  std::array<Amount, kNumLinkClasses> sent, received;
  Amount allSent() const;
  Amount allReceived() const;
  bool operator==(const RankTraffic&) const = default;
};

struct Traffic {
  std::vector<RankTraffic> ranks;
  int nChunks = 1;  // that the schedule divides a vector into
  int loops = 1;    // over slices; messages count in each
};

inline constexpr int kMostCounted = 4096;  // ranks

/// On one channel.  Chunks have equal parts of a vector, as in simulate().  Errors: InvalidArgument as simulate(), and
/// for more than kMostCounted ranks.
Result<Traffic> trafficOf(const Network& network, const Task& task);

}  // namespace tutti::sim
