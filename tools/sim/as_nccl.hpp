// `tutti-sim --as nccl`: what NCCL would take on the described cluster, and what Tutti would beside it.
#pragma once

#include "tools/sim/compare.hpp"

namespace tutti::sim {

struct NcclQuestion {
  std::string release = "2.30";
  int gpusPerProcess = 1;
  bool alone = false;
  bool sharp = false;
};

/// The algorithm that NCCL chooses, how long it takes and why, and what the others would.  question.algorithm and
/// .protocol are NCCL's, as its NCCL_ALGO and NCCL_PROTO.
/// Errors: InvalidUsage, InvalidArgument; those of the description.
Result<std::string> reportNccl(const Question& question, const NcclQuestion& nccl, bool json);

/// Over sizes: NCCL, the fastest of Tutti's algorithms by each executor that could run there, and the gain.
Result<std::string> compareWithNccl(const Question& question, const NcclQuestion& nccl, const CompareOptions& options);

}  // namespace tutti::sim
