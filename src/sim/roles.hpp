// Who does what in a collective: the programs of all ranks, or of one rank for each class of ranks that do the same.
//
// Classes are those of nodes: two nodes are of one class if their ranks, in order, have the same programs towards peers
// of the same classes.  All ranks of a class then do the same at the same time, on a fabric that holds nobody up, and
// one node of each class is enough to know when.  Classes are found in one of two ways:
//   - by symmetry: going round by whole nodes (or, for a power of two of them, exchanging all by one bit pattern, or
//     going along the dimensions of a grid) makes of every rank's program another rank's.  Checked on node 0 and a few
//     others;
//   - by refinement: nodes are told apart by their programs and by their peers' classes until nothing changes (1-
//     dimensional Weisfeiler & Leman 1968).  Found on the schedule for few bytes, checked on some nodes of each class
//     with the real one.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "src/base/status.hpp"
#include "src/sim/program.hpp"

namespace tutti::sim {

/// What is estimated: an algorithm's schedules.
struct ProgramSource {
  std::string_view name;  // of the algorithm, for messages
  Schedule (*build)(const Shape& shape) = nullptr;
  Shape shape;  // that the algorithm supports; rank is ignored
  ProgramOptions options;
  /// Ranks that go into classes as one: 0: those of a node; 1: every rank by itself, where all ways are alike.
  int together = 0;
  /// Dimensions, the fastest first, of a grid of all ranks from each of which the schedules look alike; empty: unknown.
  std::vector<int> grid = {};
  /// Nodes that a symmetry is checked on; 1: with one rank.
  int checked = 4;
  /// No classes by refinement, which looks at all ranks.
  bool symmetryOnly = false;
  /// Most steps of all ranks' programs that may be looked at to find classes.
  uint64_t mostSteps = 400'000'000;
  /// What the way between two ranks takes beside the links of their nodes, microseconds; empty: nothing.
  std::function<double(int from, int to)> switchesUs;
};

/// Where a rank is: the local-th of a node.
struct Place {
  int node = 0;
  int local = 0;
  bool operator==(const Place&) const = default;
};

/// [rank] by Shape::nodeOf.
std::vector<Place> placesOf(const Shape& shape);
/// Ranks of every node, if they follow each other and are as many on each; else 0.
int ranksPerNode(const Shape& shape);

struct RoleEdge {
  int32_t member = 0;     // who the peer is, or is like
  int32_t toEdge = 0;     // what this member is among the peer's edges
  int32_t rank = 0;       // the peer itself
  double switchesUs = 0;  // ProgramSource::switchesUs to it, on average over the class
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

/// Every rank.  Errors: InternalError if a rank sends to one that does not receive.
Result<Roles> allRoles(const ProgramSource& source);

/// The same of schedules that are there; switchesUs as in ProgramSource.
Result<Roles> rolesOf(const std::vector<Schedule>& schedules, const Shape& shape, const ProgramOptions& options,
                      const std::function<double(int from, int to)>& switchesUs = {});

/// Classes.  Errors: also InvalidArgument if nodes have different numbers of ranks, or if there are too many classes
/// for this to be of use.
Result<Roles> classRoles(const ProgramSource& source);

// What finding roles is made of; for roles.cpp and classes.cpp.

/// shape->rank is set on the way.
std::shared_ptr<const Program> buildProgram(const ProgramSource& source, Shape* shape, int rank);

/// Which edge leads to a rank, -1 if none does, for many questions.
class EdgeIndex {
 public:
  explicit EdgeIndex(const std::vector<int32_t>& edges);
  int of(int rank) const;

 private:
  std::vector<std::pair<int32_t, int32_t>> sorted_;
};

Status unmatched(int from, int to);

}  // namespace tutti::sim
