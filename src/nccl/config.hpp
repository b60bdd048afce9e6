// ncclConfig_t in tutti's words.
#pragma once

#include "src/nccl/abi.hpp"

namespace tutti::nccl {

/// Whether ranks compute on host memory: TUTTI_DEVICE=host.  Else they are what NCCL's are, CUDA devices.
bool onHost();

/// How long a rank may be silent: TUTTI_TIMEOUT_MS, or half an hour.  NCCL waits for ever, and a rank of a training job
/// may be late by minutes without being lost (it writes a checkpoint); a rank that dies is noticed at once.
int timeoutMs();

/// What the children of a communicator share with it, which NCCL decides by the parent's config; tutti by the child's.
struct Shares {
  bool split = false, shrink = false;
};

/// A program's config, or nullptr, under what the environment overrides.  Its texts are borrowed from both.
/// Reads no more of it than its size and version say.  An error is reported as one of `function`.
ncclResult_t translateConfig(const char* function, const ncclConfig_t* config, tuttiConfig_t* out, Shares* shares);

/// The same for a communicator that is made from another: without a config it is as its parent, of which `shares` must
/// then be told; with one, nothing but the device is the parent's.  share: whether the two share their threads.
ncclResult_t translateChildConfig(const char* function, const ncclConfig_t* config, bool share, tuttiConfig_t* out,
                                  Shares* shares);

}  // namespace tutti::nccl
