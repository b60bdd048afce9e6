// ncclConfig_t in tutti's words.
#pragma once

#include "src/nccl/abi.hpp"

namespace tutti::nccl {

/// Whether ranks compute on host memory: TUTTI_DEVICE=host.  Else they are what NCCL's are, CUDA devices.
bool onHost();

/// How long a rank may be silent: TUTTI_TIMEOUT_MS, or half an hour.  NCCL waits for ever, and a rank of a training job
/// may be late by minutes without being lost (it writes a checkpoint); a rank that dies is noticed at once.
int timeoutMs();

/// A program's config, or nullptr, under what the environment overrides.  Its texts are borrowed from both.
/// Reads no more of it than its size and version say.  An error is reported as one of `function`.
ncclResult_t translateConfig(const char* function, const ncclConfig_t* config, tuttiConfig_t* out);

}  // namespace tutti::nccl
