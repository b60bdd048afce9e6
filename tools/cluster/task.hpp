// What is simulated, and whose part of it: src/sim/roles.hpp on a cluster.
#pragma once

#include <memory>

#include "algorithms/algorithm.hpp"
#include "src/sim/roles.hpp"
#include "tools/cluster/network.hpp"

namespace tutti::sim {

/// What to simulate.
struct Task {
  const Algorithm* algorithm = nullptr;
  /// Schedules that are there already, of all ranks (an imported plan's), instead of those that `algorithm` builds; not
  /// owned.
  const std::vector<Schedule>* schedules = nullptr;
  size_t bytes = 0;  // as in Shape
  int root = 0;
  bool inPlace = true;
  ProgramOptions options;
  /// Chunks of a step share messages of up to options.sliceBytes (Shape::messageBytes), as those of the executor do.
  bool joined = true;
  /// Ranks that are no longer there; the others move up.
  std::vector<int> lostRanks;
};

/// Where the ranks of a task are, in order.
std::vector<Place> placesOf(const Cluster& cluster, const Task& task);
/// The shape of a task for its rank 0, with `bytes`.
Shape shapeOf(const Task& task, const std::vector<Place>& places, size_t bytes);

/// Errors: InvalidArgument with what the algorithm or plan lacks there.
Status checkTask(const Task& task, const std::vector<Place>& places);

/// Every rank.  Errors: InvalidArgument if the algorithm does not support the shape; InternalError if a rank sends to
/// one that does not receive.
Result<Roles> allRoles(const Network& network, const Task& task);

/// Classes.  Errors: also InvalidArgument for schedules that are there already, if the fabric could hold messages up,
/// if there are nodes that differ from the others (lost ranks), or if there are too many classes for this to be of use.
Result<Roles> classRoles(const Network& network, const Task& task);

}  // namespace tutti::sim
