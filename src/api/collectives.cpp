// Collectives with the same count on every rank, and point to point.
#include "src/api/entry.hpp"

using tutti::Call;
using tutti::CallKind;
using tutti::Collective;
using tutti::enterCall;

namespace {

Call collective(Collective which, const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype,
                tuttiRedOp_t op = tuttiSum, int root = 0) {
  Call call;
  call.collective = which;
  call.sendbuff = sendbuff;
  call.recvbuff = recvbuff;
  call.count = count;
  call.dtype = dtype;
  call.op = op;
  call.root = root;
  return call;
}

}  // namespace

extern "C" {

tuttiResult_t tuttiAllReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, tuttiRedOp_t op,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return enterCall("AllReduce", comm, collective(Collective::AllReduce, sendbuff, recvbuff, count, dtype, op), stream);
}

tuttiResult_t tuttiBroadcast(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, int root,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return enterCall("Broadcast", comm,
                   collective(Collective::Broadcast, sendbuff, recvbuff, count, dtype, tuttiSum, root), stream);
}

tuttiResult_t tuttiReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, tuttiRedOp_t op,
                          int root, tuttiComm_t comm, tuttiStream_t stream) {
  return enterCall("Reduce", comm, collective(Collective::Reduce, sendbuff, recvbuff, count, dtype, op, root), stream);
}

tuttiResult_t tuttiAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tuttiDataType_t dtype,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return enterCall("AllGather", comm, collective(Collective::AllGather, sendbuff, recvbuff, sendcount, dtype), stream);
}

tuttiResult_t tuttiReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, tuttiDataType_t dtype,
                                 tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return enterCall("ReduceScatter", comm,
                   collective(Collective::ReduceScatter, sendbuff, recvbuff, recvcount, dtype, op), stream);
}

tuttiResult_t tuttiAllToAll(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, tuttiComm_t comm,
                            tuttiStream_t stream) {
  return enterCall("AllToAll", comm, collective(Collective::AllToAll, sendbuff, recvbuff, count, dtype), stream);
}

tuttiResult_t tuttiGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, int root,
                          tuttiComm_t comm, tuttiStream_t stream) {
  return enterCall("Gather", comm, collective(Collective::Gather, sendbuff, recvbuff, count, dtype, tuttiSum, root),
                   stream);
}

tuttiResult_t tuttiScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, int root,
                           tuttiComm_t comm, tuttiStream_t stream) {
  return enterCall("Scatter", comm, collective(Collective::Scatter, sendbuff, recvbuff, count, dtype, tuttiSum, root),
                   stream);
}

tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream) {
  return enterCall("Barrier", comm, collective(Collective::Barrier, nullptr, nullptr, 0, tuttiUint8), stream);
}

tuttiResult_t tuttiSend(const void* sendbuff, size_t count, tuttiDataType_t dtype, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  Call call;
  call.kind = CallKind::Send;
  call.sendbuff = sendbuff;
  call.count = count;
  call.dtype = dtype;
  call.root = peer;
  return enterCall("Send", comm, call, stream);
}

tuttiResult_t tuttiRecv(void* recvbuff, size_t count, tuttiDataType_t dtype, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  Call call;
  call.kind = CallKind::Recv;
  call.recvbuff = recvbuff;
  call.count = count;
  call.dtype = dtype;
  call.root = peer;
  return enterCall("Recv", comm, call, stream);
}

}  // extern "C"
