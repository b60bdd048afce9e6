// Version, error texts, unique ids.
#include "src/api/entry.hpp"
#include "src/base/config.hpp"
#include "src/comm/variables.hpp"
#include "src/control/session/unique_id.hpp"

using namespace tutti;

extern "C" {

tuttiResult_t tuttiGetVersion(int* version) {
  return guarded("GetVersion", nullptr, [&]() -> Status {
    TUTTI_TRY(checkNotNull(version, "version"));
    *version = TUTTI_VERSION_CODE;
    return {};
  });
}

const char* tuttiGetErrorString(tuttiResult_t result) {
  switch (result) {
    case tuttiSuccess: return "no error";
    case tuttiUnhandledCudaError: return "unhandled CUDA error";
    case tuttiSystemError: return "the operating system refused something (tuttiGetLastError says what)";
    case tuttiInternalError: return "internal error of Tutti";
    case tuttiInvalidArgument: return "invalid argument";
    case tuttiInvalidUsage: return "invalid usage";
    case tuttiRemoteError: return "a peer is dead, aborted or unreachable";
    case tuttiInProgress: return "operation in progress";
    case tuttiTimeout: return "a rank stayed silent until the deadline";
    case tuttiNumResults: break;
  }
  return "unknown result code";
}

const char* tuttiGetLastError(tuttiComm_t comm) {
  if (comm == nullptr)
    return threadErrorLost() ? "there is no memory left for this process" : threadErrorText().c_str();
  const std::lock_guard lock(comm->mutex);
  comm->shownErrorText = comm->lastErrorText;
  return comm->shownErrorText.c_str();
}

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* uniqueId) {
  return guarded("GetUniqueId", nullptr, [&]() -> Status {
    TUTTI_TRY(checkNotNull(uniqueId, "uniqueId"));
    TUTTI_TRY(checkConfig());
    TUTTI_ASSIGN(*uniqueId, openRendezvousPlace());
    return {};
  });
}

tuttiResult_t tuttiGetUniqueIdAt(const char* address, int serve, tuttiUniqueId* uniqueId) {
  return guarded("GetUniqueIdAt", nullptr, [&]() -> Status {
    TUTTI_TRY(checkNotNull(address, "address"));
    TUTTI_TRY(checkNotNull(uniqueId, "uniqueId"));
    if (serve != 0 && serve != 1)
      return invalidArgument(ErrorCode::ArgumentValue, "serve ", serve,
                             " is unknown; pass 1 to have this process serve the meeting place, else 0");
    TUTTI_TRY(checkConfig());
    TUTTI_ASSIGN(*uniqueId, agreedUniqueId(address, serve == 1));
    return {};
  });
}

tuttiResult_t tuttiRankEnded(tuttiUniqueId uniqueId, int rank, const char* how) {
  return guarded("RankEnded", nullptr, [&]() -> Status {
    TUTTI_TRY(checkNotNull(how, "how"));
    if (rank < 0) return invalidArgument(ErrorCode::RankOutOfRange, "rank ", rank, " is negative");
    TUTTI_ASSIGN(const MeetingPlace place, decodeUniqueId(uniqueId));
    tellRankEnded(place, rank, how);
    return {};
  });
}

tuttiResult_t tuttiSetDefault(const char* name, const char* value) {
  return guarded("SetDefault", nullptr, [&]() -> Status {
    TUTTI_TRY(checkNotNull(name, "name"));
    return setVariable(name, value);
  });
}

tuttiResult_t tuttiGroupStart(void) {
  ++groupDepth;
  return tuttiSuccess;
}

tuttiResult_t tuttiGroupEnd(void) {
  return guarded("GroupEnd", nullptr, [&] {
    CallGroup& group = currentGroup();
    if (groupDepth == 0)
      return report("GroupEnd",
                    invalidUsage(ErrorCode::NoGroup,
                                 "this thread has no open group; pair it with tuttiGroupStart on the same thread"),
                    nullptr);
    if (--groupDepth > 0) return tuttiSuccess;
    return report("GroupEnd", endGroup(&group), nullptr);
  });
}

}  // extern "C"
