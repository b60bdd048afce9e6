// Collectives with the same count on every rank, and point to point.
#include "src/api/entry.hpp"

using tutti::Collective;
using tutti::enterCollective;
using tutti::enterTransfer;

extern "C" {

tuttiResult_t tuttiAllReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, tuttiRedOp_t op,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return enterCollective("AllReduce", comm, {Collective::AllReduce, dtype, op, 0, count, sendbuff, recvbuff}, stream);
}

tuttiResult_t tuttiBroadcast(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, int root,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return enterCollective("Broadcast", comm, {Collective::Broadcast, dtype, tuttiSum, root, count, sendbuff, recvbuff},
                         stream);
}

tuttiResult_t tuttiReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, tuttiRedOp_t op,
                          int root, tuttiComm_t comm, tuttiStream_t stream) {
  return enterCollective("Reduce", comm, {Collective::Reduce, dtype, op, root, count, sendbuff, recvbuff}, stream);
}

tuttiResult_t tuttiAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tuttiDataType_t dtype,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return enterCollective("AllGather", comm, {Collective::AllGather, dtype, tuttiSum, 0, sendcount, sendbuff, recvbuff},
                         stream);
}

tuttiResult_t tuttiReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, tuttiDataType_t dtype,
                                 tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return enterCollective("ReduceScatter", comm,
                         {Collective::ReduceScatter, dtype, op, 0, recvcount, sendbuff, recvbuff}, stream);
}

tuttiResult_t tuttiAllToAll(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, tuttiComm_t comm,
                            tuttiStream_t stream) {
  return enterCollective("AllToAll", comm, {Collective::AllToAll, dtype, tuttiSum, 0, count, sendbuff, recvbuff},
                         stream);
}

tuttiResult_t tuttiGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, int root,
                          tuttiComm_t comm, tuttiStream_t stream) {
  return enterCollective("Gather", comm, {Collective::Gather, dtype, tuttiSum, root, count, sendbuff, recvbuff},
                         stream);
}

tuttiResult_t tuttiScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, int root,
                           tuttiComm_t comm, tuttiStream_t stream) {
  return enterCollective("Scatter", comm, {Collective::Scatter, dtype, tuttiSum, root, count, sendbuff, recvbuff},
                         stream);
}

tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream) {
  return enterCollective("Barrier", comm, {Collective::Barrier, tuttiUint8, tuttiSum, 0, 0, nullptr, nullptr}, stream);
}

tuttiResult_t tuttiSend(const void* sendbuff, size_t count, tuttiDataType_t dtype, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return enterTransfer("Send", comm, {true, dtype, peer, count, sendbuff, nullptr}, stream);
}

tuttiResult_t tuttiRecv(void* recvbuff, size_t count, tuttiDataType_t dtype, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return enterTransfer("Recv", comm, {false, dtype, peer, count, nullptr, recvbuff}, stream);
}

}  // extern "C"
