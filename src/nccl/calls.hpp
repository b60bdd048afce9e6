// What every call that moves data has in common: its arguments in tutti's types, and its line in the log.
#pragma once

#include "src/nccl/abi.hpp"

namespace tutti::nccl {

/// Arguments as the log shows them.
struct CallArguments {
  const void* sendbuff;
  const void* recvbuff;
  size_t count;
  ncclDataType_t dtype;
  ncclRedOp_t op;
  int root;
  ncclComm_t comm;
  cudaStream_t stream;
};

/// NCCL's types and operators end where tutti's go on: ncclInvalidArgument, as NCCL.  Also logs the call (COLL).
ncclResult_t checkCall(const char* function, const CallArguments& call);

/// Whether comm is a communicator that can be asked anything.
ncclResult_t checkComm(const char* function, ncclComm_t comm);

inline tuttiComm_t handle(ncclComm_t comm) { return reinterpret_cast<tuttiComm_t>(comm); }
inline tuttiDataType_t typeOf(ncclDataType_t dtype) { return static_cast<tuttiDataType_t>(dtype); }
inline tuttiRedOp_t opOf(ncclRedOp_t op) { return static_cast<tuttiRedOp_t>(op); }

/// On host memory CUDA's names of the default stream (0, 1: legacy, 2: per thread) all are "no stream".
tuttiStream_t streamOf(cudaStream_t stream);

}  // namespace tutti::nccl
