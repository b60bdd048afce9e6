// Times that others have published, and what the simulator is told to reproduce them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/nccl_model/settings.hpp"

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
  /// NCCL ran, in this way: the specification is compared by its model.  Else Tutti's schedules are.
  std::optional<nccl_model::Settings> nccl = {};
  /// Why the set cannot be right as a whole: it contradicts itself, another set or the specification.
  const char* doubt = nullptr;
  /// Calls in a row that were timed, with buffers of their own for what comes out; else calls alone, in place.
  bool inRows = false;
};

/// Bus bandwidth of an allreduce to time.
double allReduceUs(double bytes, int ranks, double busGBps);

/// All of them; the one table of constants.
std::vector<PublishedSet> publishedSets();
/// Its part of sets that NCCL's model alone is compared with.
std::vector<PublishedSet> ncclSets();
/// Its part of Tutti itself, on the machine of perf/results.
std::vector<PublishedSet> measuredSets();

}  // namespace tutti::sim
