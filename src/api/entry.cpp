#include "src/api/entry.hpp"

#include <cstdint>
#include <limits>

#include "src/api/ranges.hpp"
#include "src/base/caught.hpp"

namespace tutti {
namespace {

Status checkOperator(const tuttiComm* handle, Call* call) {
  if (call->op < 0)
    return invalidArgument(ErrorCode::Operator, "op ", static_cast<int>(call->op),
                           " is not an operator; pass tuttiSum or another constant of tuttiRedOp_t");
  if (call->op >= tuttiNumOps) {
    call->custom = handle->comm->operators().find(call->op);
    if (call->custom == nullptr) {
      return invalidArgument(
          ErrorCode::Operator, "op ", static_cast<int>(call->op),
          " is neither built in nor made for this communicator (or is destroyed); make it with tuttiRedOpCreate "
          "on this communicator, and destroy it after its last call");
    }
    if (call->custom->function == nullptr && call->custom->dtype != call->dtype) {
      return invalidArgument(ErrorCode::OperatorType, "op was made by tuttiRedOpCreatePreMulSum for ",
                             dataTypeName(call->custom->dtype), ", but dtype is ", dataTypeName(call->dtype),
                             "; make an operator for each type");
    }
    return {};
  }
  if (!validOpForType(call->op, call->dtype)) {
    return invalidArgument(ErrorCode::OperatorType, "op ", redOpName(call->op), " is not defined on dtype ",
                           dataTypeName(call->dtype), "; docs/guide.md lists the operators of each type");
  }
  return {};
}

Status checkRoot(const tuttiComm* handle, const Call& call) {
  const bool peer = call.kind != CallKind::Collective;
  if (!peer && !callIsRooted(call)) return {};
  if (call.root >= 0 && call.root < handle->nRanks) return {};
  return invalidArgument(ErrorCode::RootOrPeerOutOfRange, peer ? "peer " : "root ", call.root,
                         " is not a rank of this communicator; its ranks are 0..", handle->nRanks - 1);
}

/// What this rank uses of its buffers; one of which it uses nothing may be NULL.
Extents extentsHere(const tuttiComm* handle, const Call& call) {
  if (call.kind == CallKind::Collective) return extentsOf(call, handle->rank, handle->nRanks);
  const size_t bytes = call.count * dataTypeBytes(call.dtype);
  return {call.kind == CallKind::Send ? bytes : 0, call.kind == CallKind::Recv ? bytes : 0, 0};
}

Status checkBuffers(const tuttiComm* handle, const Call& call) {
  const Extents extents = extentsHere(handle, call);
  if (extents.sendBytes > 0) TUTTI_TRY(checkNotNull(call.sendbuff, "sendbuff"));
  if (extents.recvBytes > 0) TUTTI_TRY(checkNotNull(call.recvbuff, "recvbuff"));
  return {};
}

Status checkCount(const tuttiComm* handle, const Call& call) {
  const size_t most = std::numeric_limits<size_t>::max() / 2 / dataTypeBytes(call.dtype);
  const size_t count = largestBlock(call);
  if (count <= most / static_cast<size_t>(handle->nRanks)) return {};
  return invalidArgument(ErrorCode::CountTooLarge, "count ", count, " of ", dataTypeName(call.dtype), " on ",
                         handle->nRanks,
                         " ranks does not fit into memory; count is elements, not bytes, and not negative");
}

/// Of the buffers that this rank has.
Status checkMemory(const tuttiComm* handle, const Call& call) {
  const Executor& executor = handle->comm->executor();
  const Extents extents = extentsHere(handle, call);
  if (extents.sendBytes > 0) TUTTI_TRY(executor.checkMemory(call.sendbuff, "sendbuff"));
  if (extents.recvBytes > 0) TUTTI_TRY(executor.checkMemory(call.recvbuff, "recvbuff"));
  return {};
}

// Where the blocks are all alike, sendbuff and recvbuff are either placed as the call allows in place, or apart.
Status checkOverlap(const tuttiComm* handle, const Call& call) {
  if (call.kind != CallKind::Collective || call.counts) return {};
  const Extents extents = extentsOf(call, handle->rank, handle->nRanks);
  if (!extents.both() || placed(extents, call.sendbuff, call.recvbuff) != Placement::Wrong) return {};
  constexpr const char* kRules[] = {"sendbuff == recvbuff", "sendbuff == recvbuff + rank * count",
                                    "recvbuff == sendbuff + rank * count"};  // in the order of InPlace
  return invalidArgument(ErrorCode::BuffersOverlap,
                         "sendbuff and recvbuff overlap without being in place; keep them apart, or pass ",
                         kRules[static_cast<size_t>(inPlaceOf(call.collective))]);
}

}  // namespace

std::string& threadErrorText() {
  static thread_local std::string text;
  return text;
}

bool& threadErrorLost() {
  static thread_local constinit bool lost = false;
  return lost;
}

std::string onRank(const tuttiComm* handle) { return cat(" (rank ", handle->rank, " of ", handle->nRanks, ")"); }

tuttiResult_t report(const char* function, const Status& status, tuttiComm_t handle) {
  if (status.ok()) return tuttiSuccess;
  const bool ofRank = handle != nullptr && status.code() == tuttiInvalidArgument;
  std::string text =
      withCode(cat("tutti", function, ofRank ? onRank(handle) : "", ": ", status.message()), status.kind());
  if (handle != nullptr) {
    const std::lock_guard lock(handle->mutex);
    handle->lastErrorText = text;
  }
  threadErrorText() = std::move(text);
  threadErrorLost() = false;
  return status.code();
}

tuttiResult_t reportCall(const char* function, const Status& status, tuttiComm_t handle) {
  CallGroup& group = currentGroup();
  if (!status.ok() && status.code() != tuttiInProgress && groupDepth > 0 && group.error.ok()) {
    group.error = Status(status.code(), status.kind(), cat("tutti", function, ": ", status.message()));
  }
  return report(function, status, handle);
}

tuttiResult_t thrown(const char* function, tuttiComm_t handle) noexcept {
  try {
    const Status why = thrownStatus();
    if (handle != nullptr) {
      const Result<CommUse> comm = use(handle);
      if (comm.ok()) (*comm)->watchdog().fail(why);
    }
    return reportCall(function, why, handle);
  } catch (const std::exception&) {
    if (handle != nullptr) handle->abortState.stop();
    threadErrorLost() = true;
    return tuttiSystemError;
  }
}

Status checkNotNull(const void* pointer, const char* name) {
  return pointer == nullptr ? invalidArgument(ErrorCode::NullPointer, name, " is NULL; pass a valid pointer")
                            : Status();
}

Status checkParameters(tuttiComm_t handle, Call* call) {
  if (!validDataType(static_cast<int>(call->dtype))) {
    return invalidArgument(ErrorCode::DataType, "dtype ", static_cast<int>(call->dtype),
                           " is not a data type; pass tuttiFloat32 or another constant of tuttiDataType_t (0..",
                           tuttiNumTypes - 1, ")");
  }
  if (callReduces(*call)) TUTTI_TRY(checkOperator(handle, call));
  TUTTI_TRY(checkRoot(handle, *call));
  return checkCount(handle, *call);
}

Status checkCall(tuttiComm_t handle, Call* call) {
  TUTTI_TRY(checkParameters(handle, call));
  TUTTI_TRY(checkBuffers(handle, *call));
  TUTTI_TRY(checkMemory(handle, *call));
  return checkOverlap(handle, *call);
}

tuttiResult_t enterCollective(const char* function, tuttiComm_t handle, const PlainCall& plain, tuttiStream_t stream) {
  return guarded(function, handle, [&] {
    if (handle != nullptr && stream == nullptr && groupDepth == 0) {
      Status status;
      if (runAgain(handle, plain, &status)) return status.ok() ? tuttiSuccess : report(function, status, handle);
    }
    Call call;
    call.collective = plain.collective;
    call.sendbuff = plain.sendbuff;
    call.recvbuff = plain.recvbuff;
    call.count = plain.count;
    call.dtype = plain.dtype;
    call.op = plain.op;
    call.root = plain.root;
    return enterCall(function, handle, call, stream);
  });
}

tuttiResult_t enterTransfer(const char* function, tuttiComm_t handle, const PlainTransfer& transfer,
                            tuttiStream_t stream) {
  return guarded(function, handle, [&] {
    if (handle != nullptr && stream == nullptr && groupDepth == 0) {
      Status status;
      if (runAgain(handle, transfer, &status)) return status.ok() ? tuttiSuccess : report(function, status, handle);
    }
    Call call;
    call.kind = transfer.isSend ? CallKind::Send : CallKind::Recv;
    call.sendbuff = transfer.source;
    call.recvbuff = transfer.dst;
    call.count = transfer.count;
    call.dtype = transfer.dtype;
    call.root = transfer.peer;
    return enterCall(function, handle, call, stream);
  });
}

tuttiResult_t enterCall(const char* function, tuttiComm_t handle, Call call, tuttiStream_t stream) {
  return guarded(function, handle, [&] {
    const Result<CommUse> comm = use(handle);
    Status status = comm.status();
    if (status.ok()) status = (*comm)->executor().checkStream(stream);
    if (status.ok()) status = checkCall(handle, &call);
    if (status.ok() && (*comm)->watchdog().aborting()) status = (*comm)->failure();
    if (!status.ok()) return reportCall(function, status, handle);
    const CallRange range(handle->settings.cudaDevice >= 0, function);
    status = submit(handle, call, stream);
    return status.ok() ? tuttiSuccess : report(function, status, handle);
  });
}

}  // namespace tutti
