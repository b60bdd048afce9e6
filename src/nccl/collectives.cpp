// Collectives, sends and receives: each is its tutti twin.
#include "src/nccl/calls.hpp"
#include "src/nccl/errors.hpp"

using namespace tutti::nccl;

/// Returns from the enclosing function if its arguments are none.
#define CHECK_CALL(function, ...) \
  if (const ncclResult_t bad = checkCall(function, {__VA_ARGS__}); bad != ncclSuccess) return bad

namespace tutti::nccl {

ncclResult_t allReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream) {
  CHECK_CALL("AllReduce", sendbuff, recvbuff, count, datatype, op, 0, comm, stream);
  return finish("AllReduce",
                tuttiAllReduce(sendbuff, recvbuff, count, typeOf(datatype), opOf(op), handle(comm), streamOf(stream)));
}

ncclResult_t broadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream) {
  CHECK_CALL("Broadcast", sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream);
  return finish("Broadcast",
                tuttiBroadcast(sendbuff, recvbuff, count, typeOf(datatype), root, handle(comm), streamOf(stream)));
}

ncclResult_t reduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                    int root, ncclComm_t comm, cudaStream_t stream) {
  CHECK_CALL("Reduce", sendbuff, recvbuff, count, datatype, op, root, comm, stream);
  return finish("Reduce", tuttiReduce(sendbuff, recvbuff, count, typeOf(datatype), opOf(op), root, handle(comm),
                                      streamOf(stream)));
}

ncclResult_t allGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                       cudaStream_t stream) {
  CHECK_CALL("AllGather", sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, comm, stream);
  return finish("AllGather",
                tuttiAllGather(sendbuff, recvbuff, sendcount, typeOf(datatype), handle(comm), streamOf(stream)));
}

ncclResult_t reduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  CHECK_CALL("ReduceScatter", sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream);
  return finish("ReduceScatter", tuttiReduceScatter(sendbuff, recvbuff, recvcount, typeOf(datatype), opOf(op),
                                                    handle(comm), streamOf(stream)));
}

ncclResult_t allToAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                      cudaStream_t stream) {
  CHECK_CALL("AlltoAll", sendbuff, recvbuff, count, datatype, ncclSum, 0, comm, stream);
  return finish("AlltoAll", tuttiAllToAll(sendbuff, recvbuff, count, typeOf(datatype), handle(comm), streamOf(stream)));
}

ncclResult_t gather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                    ncclComm_t comm, cudaStream_t stream) {
  CHECK_CALL("Gather", sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream);
  return finish("Gather",
                tuttiGather(sendbuff, recvbuff, count, typeOf(datatype), root, handle(comm), streamOf(stream)));
}

ncclResult_t scatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                     ncclComm_t comm, cudaStream_t stream) {
  CHECK_CALL("Scatter", sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream);
  return finish("Scatter",
                tuttiScatter(sendbuff, recvbuff, count, typeOf(datatype), root, handle(comm), streamOf(stream)));
}

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

/// A collective, and its form with a config (2.31).
#define EXPORT_COLLECTIVE(name, twin, parameters, configured, ...)          \
  NCCL_EXPORT(ncclResult_t, name, parameters) { return twin(__VA_ARGS__); } \
  NCCL_EXPORT(ncclResult_t, name##Config, configured) {                     \
    const ncclResult_t bad = checkConfig(#name "Config", config);           \
    return bad != ncclSuccess ? bad : twin(__VA_ARGS__);                    \
  }
#define WITH(...) (__VA_ARGS__)

EXPORT_COLLECTIVE(AllReduce, allReduce,
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream),
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream, const CallConfig* config),
                  sendbuff, recvbuff, count, datatype, op, comm, stream)
EXPORT_COLLECTIVE(Broadcast, broadcast,
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream),
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream, const CallConfig* config),
                  sendbuff, recvbuff, count, datatype, root, comm, stream)
EXPORT_COLLECTIVE(Reduce, reduce,
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                       int root, ncclComm_t comm, cudaStream_t stream),
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                       int root, ncclComm_t comm, cudaStream_t stream, const CallConfig* config),
                  sendbuff, recvbuff, count, datatype, op, root, comm, stream)
EXPORT_COLLECTIVE(AllGather, allGather,
                  WITH(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                       cudaStream_t stream),
                  WITH(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                       cudaStream_t stream, const CallConfig* config),
                  sendbuff, recvbuff, sendcount, datatype, comm, stream)
EXPORT_COLLECTIVE(ReduceScatter, reduceScatter,
                  WITH(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream),
                  WITH(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream, const CallConfig* config),
                  sendbuff, recvbuff, recvcount, datatype, op, comm, stream)
EXPORT_COLLECTIVE(AlltoAll, allToAll,
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                       cudaStream_t stream),
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                       cudaStream_t stream, const CallConfig* config),
                  sendbuff, recvbuff, count, datatype, comm, stream)
EXPORT_COLLECTIVE(Gather, gather,
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream),
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream, const CallConfig* config),
                  sendbuff, recvbuff, count, datatype, root, comm, stream)
EXPORT_COLLECTIVE(Scatter, scatter,
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream),
                  WITH(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream, const CallConfig* config),
                  sendbuff, recvbuff, count, datatype, root, comm, stream)

NCCL_EXPORT(ncclResult_t, Bcast,
            (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) {
  return broadcast(buff, buff, count, datatype, root, comm, stream);
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
