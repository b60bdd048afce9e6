// Who does what in a collective: the programs of all ranks, or of one rank for each class of ranks that do the same.
//
// Classes are those of nodes: two nodes are of one class if their ranks, in order, have the same programs towards peers
// of the same classes.  All ranks of a class then do the same at the same time, on a fabric that holds nobody up, and
// one node of each class is enough to know when.  Classes are found in one of two ways:
//   - by symmetry: going round by whole nodes (all in a circle, or in each dimension of a grid; or, for a power of two
//     of them, exchanging all by one bit pattern) makes of every rank's program another rank's.  Checked on node 0 and
//     a few others;
//   - by refinement: nodes are told apart by their programs and by their peers' classes until nothing changes (1-
//     dimensional Weisfeiler & Leman 1968).  Found on the schedule for few bytes, checked on some nodes of each class
//     with the real one.
#pragma once

#include <memory>

#include "algorithms/algorithm.hpp"
#include "src/sim/network.hpp"
#include "src/sim/program.hpp"

namespace tutti::sim {

/// What to simulate.
struct Task {
  const Algorithm* algorithm = nullptr;
  size_t bytes = 0;  // as in Shape
  int root = 0;
  bool inPlace = true;
  ProgramOptions options;
  /// Ranks that are no longer there; the others move up.
  std::vector<int> lostRanks;
};

/// Where the ranks of a task are, in order.
std::vector<Place> placesOf(const Cluster& cluster, const Task& task);
/// The shape of a task for its rank 0, with `bytes`.
Shape shapeOf(const Task& task, const std::vector<Place>& places, size_t bytes);

struct RoleEdge {
  int32_t member = 0;     // who the peer is, or is like
  int32_t toEdge = 0;     // what this member is among the peer's edges
  int32_t rank = 0;       // the peer itself
  double switchesUs = 0;  // to it, on average over the class
};

struct Roles {
  std::vector<std::shared_ptr<const Program>> programs;  // [member]
  std::vector<std::vector<RoleEdge>> edges;              // [member][edge]
  std::vector<int> rankOf;                               // [member]
  std::vector<int64_t> nRanksOf;                         // [member]
  std::vector<Place> places;                             // [rank]
  /// Members are numbered node by node: those of the k-th node are firstOf[k] .. firstOf[k+1]-1.
  std::vector<int> firstOf;
  std::vector<int> nodeOf;  // [member]: k
  bool classes = false;     // else members are ranks
};

/// Every rank.  Errors: InvalidArgument if the algorithm does not support the shape; InternalError if a rank sends to
/// one that does not receive.
Result<Roles> allRoles(const Network& network, const Task& task);

/// Classes.  Errors: also InvalidArgument if the fabric could hold messages up, if there are nodes that differ from the
/// others (lost ranks), or if there are too many classes for this to be of use.
Result<Roles> classRoles(const Network& network, const Task& task);

}  // namespace tutti::sim
