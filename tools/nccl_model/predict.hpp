// What a call takes by NCCL on a described machine: every way that it would consider, the one that it chooses, and
// what the launch adds.
//
//   TUTTI_ASSIGN(const Machine machine, machineOf(network));
//   const Prediction p = predict({machine, Collective::AllReduce, 64 << 20, settings, {}});     // p.us, p.best().way
#pragma once

#include <vector>

#include "tools/nccl_model/ways.hpp"

namespace tutti::nccl_model {

struct Candidate {
  Way way;
  Protocol protocol;
  double estimateUs;  // what NCCL chooses by
  WayTime time;
};

struct Prediction {
  std::vector<Candidate> candidates;  // not empty
  size_t chosen = 0;
  bool byPlugin = false;  // the adapters' plugin chose, else NCCL by the least estimate
  double launchUs = 0;    // of all GPUs of a process: no call in a row takes less
  double aloneUs = 0;     // before the kernels of a call that waits for the one before
  const Candidate& best() const { return candidates[chosen]; }
  double us() const { return aloneUs + std::max(best().time.us(), launchUs); }
};

/// Errors: InvalidArgument for collectives that NCCL lacks, settings that leave no way, releases before 2.18.
Result<Prediction> predict(const Machine& machine, Collective collective, double bytes, const Settings& settings,
                           const Fitted& fitted = {});

}  // namespace tutti::nccl_model
