#include "src/nccl/calls.hpp"

#include "src/nccl/cliques.hpp"
#include "src/nccl/config.hpp"
#include "src/nccl/errors.hpp"
#include "src/nccl/log.hpp"

namespace tutti::nccl {
namespace {

void logCall(const char* function, const CallArguments& c) {
  int nRanks = 0;
  (void)tuttiCommCount(handle(c.comm), &nRanks);
  logInfo(subject::kColl,
          format("%s: opCount %lx sendbuff %p recvbuff %p count %zu datatype %d op %d root %d comm %p [nranks=%d] "
                 "stream %p",
                 function, nextCall(c.comm), c.sendbuff, c.recvbuff, c.count, static_cast<int>(c.dtype),
                 static_cast<int>(c.op), c.root, static_cast<void*>(c.comm), nRanks, static_cast<void*>(c.stream)));
}

}  // namespace

namespace {

ncclResult_t checkNumbers(const char* function, const CallArguments& call) {
  const auto dtype = static_cast<unsigned>(call.dtype), op = static_cast<unsigned>(call.op);
  if (dtype >= ncclNumTypes) {
    return fail(ncclInvalidArgument, function,
                format("datatype %u is not one of NCCL's (0..%d)", dtype, ncclNumTypes - 1));
  }
  if (op >= ncclNumOps && op < tuttiNumOps) {
    return fail(ncclInvalidArgument, function,
                format("op %u is neither one of NCCL's (0..%d) nor a made one", op, ncclNumOps - 1));
  }
  return ncclSuccess;
}

}  // namespace

ncclResult_t checkComm(const char* function, ncclComm_t comm) {
  int rank = 0;
  return finish(function, tuttiCommUserRank(handle(comm), &rank));
}

ncclResult_t checkCall(const char* function, const CallArguments& call) {
  const ncclResult_t result = isRevoked(call.comm) ? fail(ncclInvalidUsage, function, "comm was revoked by this rank")
                                                   : checkNumbers(function, call);
  if (result != ncclSuccess) spoilGroup(result);
  if (infoEnabled(subject::kColl)) logCall(function, call);
  return result;
}

tuttiStream_t streamOf(cudaStream_t stream) {
  if (onHost() && reinterpret_cast<uintptr_t>(stream) <= 2) return nullptr;
  return reinterpret_cast<tuttiStream_t>(stream);
}

}  // namespace tutti::nccl
