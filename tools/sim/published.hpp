// Times that others have published, and what the simulator is told to reproduce them.
#pragma once

#include <string>
#include <vector>

namespace tutti::sim {

inline constexpr double kK = 1024, kM = 1024 * kK, kG = 1024 * kM;

struct PublishedPoint {
  int nodes;
  double bytes;  // of the whole vector, as nccl-tests print it
  double us;
  bool fitted;                       // constants were chosen by it; else held out
  const char* algorithm = nullptr;   // the one that ran; null: the best of the set's
  const char* collective = nullptr;  // if not the set's
  int ranks = 0;                     // of a node, if not the set's
};

struct PublishedSet {
  std::string name;
  const char* source;
  const char* collective;
  const char* algorithms;  // the best of these
  /// A cluster description with $N for the number of nodes, $R for ranksPerNode and $a, $b, ... for the constants.
  const char* cluster = nullptr;
  std::vector<const char*> constantNames;
  std::vector<double> constants;  // as found by tutti-sim --validate --fit
  std::vector<PublishedPoint> points;
  /// The machine as its maker specifies it, with $N, and nothing that any measurement was fitted to; null: none is
  /// known.  Where `cluster` is null this is all that is simulated.
  const char* specification = nullptr;
  int ranksPerNode = 8;
  /// Calls in a row that were timed, with buffers of their own for what comes out; else calls alone, in place.
  bool inRows = false;
};

/// The one table of constants.
const std::vector<PublishedSet>& publishedSets();

/// Of Tutti itself, on the machine of perf/results.
std::vector<PublishedSet> measuredSets();

}  // namespace tutti::sim
