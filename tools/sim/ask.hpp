// What tutti-sim is asked, from the command line.
#pragma once

#include <string>
#include <vector>

#include "src/sim/simulate.hpp"

namespace tutti::sim {

struct Question {
  std::string cluster;  // file or text
  std::string collective = "allreduce";
  std::string algorithm;  // empty: all of the collective
  std::string bytes = "1M";
  int root = 0;
  int channels = 0;
  std::string protocol;
  std::string detail = "auto";
  bool single = false;
  bool outOfPlace = false;
};

/// A question understood.
struct Asked {
  Cluster cluster;
  Collective collective = Collective::AllReduce;
  std::vector<const Algorithm*> algorithms;
  size_t bytes = 0;
  Task task;  // but for the algorithm and bytes
  SimOptions options;

  Task taskFor(const Algorithm* algorithm, size_t size) const;
};

/// Errors: InvalidUsage and InvalidArgument with a sentence.
Result<Asked> understand(const Question& question);

/// "12.3", "4.56e+03" of at most five digits: what tables print.
std::string shortNumber(double value);

}  // namespace tutti::sim
