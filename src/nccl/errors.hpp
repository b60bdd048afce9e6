// From tutti's results to NCCL's, and what ncclGetLastError says.
#pragma once

#include <string>

#include "src/nccl/abi.hpp"

namespace tutti::nccl {

/// A call that failed before it reached tutti: `sentence` becomes the last error.  function: "CommInitRank".
ncclResult_t fail(ncclResult_t result, const char* function, const std::string& sentence);

/// A function that NCCL has and Tutti does not.
ncclResult_t unsupported(const char* function, const std::string& why);

/// tutti's result as NCCL's.  An error's sentence becomes the last error and a warning of the log.
/// tuttiTimeout, which NCCL has only from 2.30 on, becomes ncclRemoteError: the peer counts as lost.
ncclResult_t failed(const char* function, tuttiResult_t result);
inline ncclResult_t finish(const char* function, tuttiResult_t result) {
  return result == tuttiSuccess ? ncclSuccess : failed(function, result);
}

/// The code alone.
ncclResult_t codeOf(tuttiResult_t result);

}  // namespace tutti::nccl
