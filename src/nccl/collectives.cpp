// Collectives, sends and receives: each is its tutti twin.
#include "src/nccl/calls.hpp"
#include "src/nccl/errors.hpp"

using namespace tutti::nccl;

/// Returns from the enclosing function if its arguments are none.
#define CHECK_CALL(function, ...) \
  if (const ncclResult_t bad = checkCall(function, {__VA_ARGS__}); bad != ncclSuccess) return bad

namespace tutti::nccl {

namespace {

/// Whether a call may go on with this config (2.31); only what Tutti can honour, or need not, may be set.
ncclResult_t checkConfig(const char* function, const CallConfig* config) {
  if (config == nullptr) return ncclSuccess;
  if (config->magic != kMagic) {
    return fail(ncclInvalidArgument, function, "config is not initialised: start it with NCCL_COLLCONFIG_INITIALIZER");
  }
  if (config->size < offsetof(CallConfig, launchCompletionEvent)) {
    return fail(ncclInvalidArgument, function, "config.size is too small to be an ncclCollConfig_t");
  }
  const bool named = config->algSelection != nullptr && *config->algSelection != '\0';
  if (named && config->forceAlgSelection != 0) {
    return unsupported(function, "config.algSelection of one call; NCCL_ALGO chooses for all");
  }
  if (config->size >= sizeof *config && config->launchCompletionEvent != nullptr) {
    return unsupported(function, "config.launchCompletionEvent");
  }
  return ncclSuccess;
}

}  // namespace
}  // namespace tutti::nccl

/// A collective, and its form with a config (2.31): its parameters in brackets, what of them checkCall() takes, and the
/// call of its twin.
#define EXPORT_COLLECTIVE(name, parameters, logged, ...)                                 \
  NCCL_EXPORT(ncclResult_t, name, parameters) {                                          \
    CHECK_CALL(#name, logged);                                                           \
    return finish(#name, __VA_ARGS__);                                                   \
  }                                                                                      \
  NCCL_EXPORT(ncclResult_t, name##Config, (LIST parameters, const CallConfig* config)) { \
    const ncclResult_t refused = checkConfig(#name "Config", config);                    \
    if (refused != ncclSuccess) return refused;                                          \
    CHECK_CALL(#name, logged);                                                           \
    return finish(#name, __VA_ARGS__);                                                   \
  }
#define LIST(...) __VA_ARGS__

EXPORT_COLLECTIVE(AllReduce,
                  (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                   ncclComm_t comm, cudaStream_t stream),
                  LIST(sendbuff, recvbuff, count, datatype, op, 0, comm, stream),
                  tuttiAllReduce(sendbuff, recvbuff, count, typeOf(datatype), opOf(op), handle(comm), streamOf(stream)))

EXPORT_COLLECTIVE(Broadcast,
                  (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                   ncclComm_t comm, cudaStream_t stream),
                  LIST(sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream),
                  tuttiBroadcast(sendbuff, recvbuff, count, typeOf(datatype), root, handle(comm), streamOf(stream)))

EXPORT_COLLECTIVE(Reduce,
                  (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                   int root, ncclComm_t comm, cudaStream_t stream),
                  LIST(sendbuff, recvbuff, count, datatype, op, root, comm, stream),
                  tuttiReduce(sendbuff, recvbuff, count, typeOf(datatype), opOf(op), root, handle(comm),
                              streamOf(stream)))

EXPORT_COLLECTIVE(AllGather,
                  (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                   cudaStream_t stream),
                  LIST(sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, comm, stream),
                  tuttiAllGather(sendbuff, recvbuff, sendcount, typeOf(datatype), handle(comm), streamOf(stream)))

EXPORT_COLLECTIVE(ReduceScatter,
                  (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                   ncclComm_t comm, cudaStream_t stream),
                  LIST(sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream),
                  tuttiReduceScatter(sendbuff, recvbuff, recvcount, typeOf(datatype), opOf(op), handle(comm),
                                     streamOf(stream)))

EXPORT_COLLECTIVE(AlltoAll,
                  (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                   cudaStream_t stream),
                  LIST(sendbuff, recvbuff, count, datatype, ncclSum, 0, comm, stream),
                  tuttiAllToAll(sendbuff, recvbuff, count, typeOf(datatype), handle(comm), streamOf(stream)))

EXPORT_COLLECTIVE(Gather,
                  (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                   ncclComm_t comm, cudaStream_t stream),
                  LIST(sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream),
                  tuttiGather(sendbuff, recvbuff, count, typeOf(datatype), root, handle(comm), streamOf(stream)))

EXPORT_COLLECTIVE(Scatter,
                  (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                   ncclComm_t comm, cudaStream_t stream),
                  LIST(sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream),
                  tuttiScatter(sendbuff, recvbuff, count, typeOf(datatype), root, handle(comm), streamOf(stream)))

NCCL_EXPORT(ncclResult_t, Bcast,
            (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) {
  CHECK_CALL("Broadcast", buff, buff, count, datatype, ncclSum, root, comm, stream);
  return finish("Broadcast", tuttiBroadcast(buff, buff, count, typeOf(datatype), root, handle(comm), streamOf(stream)));
}

NCCL_EXPORT(ncclResult_t, Send,
            (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
             cudaStream_t stream)) {
  CHECK_CALL("Send", sendbuff, nullptr, count, datatype, ncclSum, peer, comm, stream);
  return finish("Send", tuttiSend(sendbuff, count, typeOf(datatype), peer, handle(comm), streamOf(stream)));
}

NCCL_EXPORT(ncclResult_t, Recv,
            (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)) {
  CHECK_CALL("Recv", nullptr, recvbuff, count, datatype, ncclSum, peer, comm, stream);
  return finish("Recv", tuttiRecv(recvbuff, count, typeOf(datatype), peer, handle(comm), streamOf(stream)));
}
