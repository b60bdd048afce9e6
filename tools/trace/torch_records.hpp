// A job's records in the shape of PyTorch's Flight Recorder, for its analyser (torchfrtrace).
#pragma once

#include <string>
#include <vector>

#include "tools/trace/job.hpp"

namespace tutti::trace {

/// One rank's file, pickled: a dictionary with version, pg_config and entries.
struct TorchFile {
  int rank = 0;
  std::string pickle;
};

/// By rank of the largest communicator; of the others, the records of the same processes, where those have a rank of
/// the largest each.
std::vector<TorchFile> torchFiles(const Job& job);

}  // namespace tutti::trace
