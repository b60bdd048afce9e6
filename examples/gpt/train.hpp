// One rank's training of the model under a layout.
#pragma once

#include <string>
#include <vector>

#include "examples/gpt/layout.hpp"
#include "tutti/parallel/base.h"

namespace gpt {

struct Outcome {
  std::vector<double> losses;  // mean of each step
  std::vector<double> norms;
  uint64_t hash = 0;                          // of all values, the same in every layout for the same bits
  std::vector<float> values;                  // the whole model, on every rank
  double sentBytes = 0, expectedBytes = 0;    // by this rank, all steps: parameters and tensor-parallel sums
  bool bytesAgree = false;                    // per kind of call
  double stepMs = 0;                          // the least
  double communicationMs = 0, exposedMs = 0;  // of data parallelism, the least over steps
};

/// The bytes of a file; throws if it cannot be read or is shorter than a sequence.
std::string readText(const std::string& path, const Shape& shape);

/// Every rank of world calls it; world is NULL for one rank.  overlap: sums while backward goes on.  Throws Refused
/// before the first step.
Outcome train(const Shape& shape, const Layout& layout, const Run& run, const std::string& text, tuttiComm_t world,
              bool overlap = true);

/// train on layout.ranks() threads of this process; rank 0's outcome, bytesAgree of all.  Throws what any rank threw;
/// Refused if none began the first step.
Outcome trainOnThreads(const Shape& shape, const Layout& layout, const Run& run, const std::string& text,
                       bool overlap = true);

}  // namespace gpt
