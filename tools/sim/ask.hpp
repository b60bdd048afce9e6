// What tutti-sim is asked, from the command line.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/import/imported_plan.hpp"
#include "tools/cluster/simulate.hpp"

namespace tutti::sim {

struct Question {
  std::string cluster;  // file or text
  std::string collective = "allreduce";
  std::string algorithm;  // empty: all of the collective
  std::string plan;       // a file of MSCCL's or MSCCL++'s, instead of collective and algorithm
  std::string bytes = "1M";
  int root = 0;
  int channels = 0;
  std::string protocol;
  std::string detail = "auto";
  bool single = false;
  bool outOfPlace = false;
  std::string executor;  // of Tutti, whose messages are sent; empty: those of the description, or NCCL's
};

/// A plan of a file, as the simulator wants it.
struct AskedPlan {
  ImportedPlan plan;
  Algorithm algorithm;  // its name and collective
};

/// A question understood.  Not to be copied: tasks point into the plan.
struct Asked {
  Cluster cluster;
  Collective collective = Collective::AllReduce;
  std::vector<const Algorithm*> algorithms;
  bool byName = false;              // these were asked for
  std::unique_ptr<AskedPlan> plan;  // then algorithms has only this one
  size_t bytes = 0;
  Task task;  // but for the algorithm and bytes
  SimOptions options;

  Task taskFor(const Algorithm* algorithm, size_t size) const;
};

/// Errors: InvalidUsage and InvalidArgument with a sentence.
Result<Asked> understand(const Question& question);

/// "12.3", "4.56e+03" of at most five digits: what tables print.
std::string shortNumber(double value);
/// With spaces before it.
std::string padded(const std::string& text, size_t width);

}  // namespace tutti::sim
