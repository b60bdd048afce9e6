#include "src/api/entry.hpp"

#include <cstdint>
#include <limits>

namespace tutti {
namespace {

Status checkStream(tuttiStream_t stream) {
  if (stream != nullptr && stream->host == nullptr) return invalidArgument("stream has been destroyed");
  return {};
}

Status checkOperator(const tuttiComm* handle, Call* call) {
  if (call->op < 0) return invalidArgument("op ", static_cast<int>(call->op), " is not an operator");
  if (call->op >= tuttiNumOps) {
    call->custom = handle->comm->operators().find(call->op);
    if (call->custom == nullptr) {
      return invalidArgument("op ", static_cast<int>(call->op),
                             " is neither built in nor made for this communicator (or is destroyed)");
    }
    if (call->custom->function == nullptr && call->custom->dtype != call->dtype) {
      return invalidArgument("op was made by tuttiRedOpCreatePreMulSum for ", dataTypeName(call->custom->dtype),
                             ", but dtype is ", dataTypeName(call->dtype));
    }
    return {};
  }
  if (!validOpForType(call->op, call->dtype)) {
    return invalidArgument("op ", redOpName(call->op), " is not defined on dtype ", dataTypeName(call->dtype));
  }
  return {};
}

Status checkRoot(const tuttiComm* handle, const Call& call) {
  const bool peer = call.kind != CallKind::Collective;
  if (!peer && !callIsRooted(call)) return {};
  if (call.root >= 0 && call.root < handle->nRanks) return {};
  return invalidArgument(peer ? "peer " : "root ", call.root, " is not a rank of this communicator (0..",
                         handle->nRanks - 1, ")");
}

bool needsSend(const tuttiComm* handle, const Call& call) {
  if (call.kind != CallKind::Collective) return call.kind == CallKind::Send;
  switch (call.collective) {
    case Collective::Broadcast:
    case Collective::Scatter: return handle->rank == call.root;
    case Collective::Barrier: return false;
    default: return true;
  }
}

bool needsReceive(const tuttiComm* handle, const Call& call) {
  if (call.kind != CallKind::Collective) return call.kind == CallKind::Recv;
  switch (call.collective) {
    case Collective::Reduce:
    case Collective::Gather: return handle->rank == call.root;
    case Collective::Barrier: return false;
    default: return true;
  }
}

bool anyCount(const std::vector<size_t>& counts) {
  for (const size_t count : counts) {
    if (count > 0) return true;
  }
  return false;
}

Status checkBuffers(const tuttiComm* handle, const Call& call) {
  const bool sends = call.counts ? call.count > 0 || anyCount(call.counts->sendCounts) : call.count > 0;
  const bool receives = call.counts ? call.count > 0 || anyCount(call.counts->recvCounts) : call.count > 0;
  if (sends && needsSend(handle, call)) TUTTI_TRY(checkNotNull(call.sendbuff, "sendbuff"));
  if (receives && needsReceive(handle, call)) TUTTI_TRY(checkNotNull(call.recvbuff, "recvbuff"));
  return {};
}

Status checkCount(const tuttiComm* handle, const Call& call) {
  const size_t most = std::numeric_limits<size_t>::max() / 2 / dataTypeBytes(call.dtype);
  if (call.count <= most / static_cast<size_t>(handle->nRanks)) return {};
  return invalidArgument("count ", call.count, " of ", dataTypeName(call.dtype), " on ", handle->nRanks,
                         " ranks does not fit into memory");
}

// Where the blocks are all alike, sendbuff and recvbuff are either placed as the call allows in place, or apart.
Status checkOverlap(const tuttiComm* handle, const Call& call) {
  if (call.kind != CallKind::Collective || call.counts || call.collective == Collective::Barrier) return {};
  if (!needsSend(handle, call) || !needsReceive(handle, call)) return {};
  const size_t unit = call.count * dataTypeBytes(call.dtype);
  const size_t all = unit * static_cast<size_t>(handle->nRanks);
  const auto send = reinterpret_cast<uintptr_t>(call.sendbuff);
  const auto recv = reinterpret_cast<uintptr_t>(call.recvbuff);
  const size_t own = unit * static_cast<size_t>(handle->rank);
  const Collective c = call.collective;
  const bool gathers = c == Collective::AllGather || c == Collective::Gather;
  const bool scatters = c == Collective::ReduceScatter || c == Collective::Scatter;
  const size_t sendBytes = scatters || c == Collective::AllToAll ? all : unit;
  const size_t recvBytes = gathers || c == Collective::AllToAll ? all : unit;
  const bool inPlace = gathers ? send == recv + own : scatters ? recv == send + own : send == recv;
  if (inPlace || send + sendBytes <= recv || recv + recvBytes <= send) return {};
  return invalidArgument("sendbuff and recvbuff overlap without being in place (",
                         gathers    ? "sendbuff == recvbuff + rank * count"
                         : scatters ? "recvbuff == sendbuff + rank * count"
                                    : "sendbuff == recvbuff",
                         ")");
}

}  // namespace

std::string& threadErrorText() {
  static thread_local std::string text;
  return text;
}

std::string onRank(const tuttiComm* handle) { return cat(" (rank ", handle->rank, " of ", handle->nRanks, ")"); }

tuttiResult_t report(const char* function, const Status& status, tuttiComm_t handle) {
  if (status.ok()) return tuttiSuccess;
  std::string text = cat("tutti", function, ": ", status.message());
  if (handle != nullptr && status.code() == tuttiInvalidArgument) text += onRank(handle);
  if (handle != nullptr) {
    const std::lock_guard lock(handle->mutex);
    handle->lastErrorText = text;
  }
  threadErrorText() = std::move(text);
  return status.code();
}

tuttiResult_t reportCall(const char* function, const Status& status, tuttiComm_t handle) {
  Group& group = currentGroup();
  if (!status.ok() && status.code() != tuttiInProgress && group.depth > 0 && group.error.ok()) {
    group.error = Status(status.code(), cat("tutti", function, ": ", status.message()));
  }
  return report(function, status, handle);
}

Status checkNotNull(const void* pointer, const char* name) {
  return pointer == nullptr ? invalidArgument(name, " is NULL") : Status();
}

Status checkParameters(tuttiComm_t handle, Call* call) {
  if (!validDataType(static_cast<int>(call->dtype))) {
    return invalidArgument("dtype ", static_cast<int>(call->dtype), " is not a data type (0..", tuttiNumTypes - 1, ")");
  }
  if (callReduces(*call)) TUTTI_TRY(checkOperator(handle, call));
  TUTTI_TRY(checkRoot(handle, *call));
  return checkCount(handle, *call);
}

Status checkCall(tuttiComm_t handle, Call* call) {
  TUTTI_TRY(checkParameters(handle, call));
  TUTTI_TRY(checkBuffers(handle, *call));
  return checkOverlap(handle, *call);
}

tuttiResult_t enterCall(const char* function, tuttiComm_t handle, Call call, tuttiStream_t stream) {
  const Result<Comm*> comm = usable(handle);
  Status status = comm.status();
  if (status.ok()) status = checkStream(stream);
  if (status.ok()) status = checkCall(handle, &call);
  if (status.ok() && (*comm)->aborting()) status = (*comm)->failure();
  if (!status.ok()) return reportCall(function, status, handle);
  status = submit(handle, call, stream);
  return status.ok() ? tuttiSuccess : report(function, status, handle);
}

}  // namespace tutti
