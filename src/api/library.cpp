// Version, error texts, unique ids.
#include "src/api/entry.hpp"
#include "src/base/config.hpp"
#include "src/comm/variables.hpp"
#include "src/control/session/unique_id.hpp"

using namespace tutti;

extern "C" {

tuttiResult_t tuttiGetVersion(int* version) try {
  const Status status = checkNotNull(version, "version");
  if (status.ok()) *version = TUTTI_VERSION_CODE;
  return report("GetVersion", status, nullptr);
} catch (const std::exception&) {
  return thrown("GetVersion", nullptr);
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

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* uniqueId) try {
  Status status = checkNotNull(uniqueId, "uniqueId");
  if (status.ok()) status = checkConfig();
  if (status.ok()) {
    const Result<tuttiUniqueId> id = openRendezvousPlace();
    status = id.status();
    if (status.ok()) *uniqueId = *id;
  }
  return report("GetUniqueId", status, nullptr);
} catch (const std::exception&) {
  return thrown("GetUniqueId", nullptr);
}

tuttiResult_t tuttiGetUniqueIdAt(const char* address, int serve, tuttiUniqueId* uniqueId) try {
  Status status = checkNotNull(address, "address");
  if (status.ok()) status = checkNotNull(uniqueId, "uniqueId");
  if (status.ok() && serve != 0 && serve != 1) status = invalidArgument("serve ", serve, " is neither 0 nor 1");
  if (status.ok()) status = checkConfig();
  if (status.ok()) {
    const Result<tuttiUniqueId> id = agreedUniqueId(address, serve == 1);
    status = id.status();
    if (status.ok()) *uniqueId = *id;
  }
  return report("GetUniqueIdAt", status, nullptr);
} catch (const std::exception&) {
  return thrown("GetUniqueIdAt", nullptr);
}

tuttiResult_t tuttiSetDefault(const char* name, const char* value) try {
  Status status = checkNotNull(name, "name");
  if (status.ok()) status = setVariable(name, value);
  return report("SetDefault", status, nullptr);
} catch (const std::exception&) {
  return thrown("SetDefault", nullptr);
}

tuttiResult_t tuttiGroupStart(void) {
  ++groupDepth;
  return tuttiSuccess;
}

tuttiResult_t tuttiGroupEnd(void) try {
  CallGroup& group = currentGroup();
  if (groupDepth == 0) return report("GroupEnd", invalidUsage("no group is open on this thread"), nullptr);
  if (--groupDepth > 0) return tuttiSuccess;
  return report("GroupEnd", endGroup(&group), nullptr);
} catch (const std::exception&) {
  return thrown("GroupEnd", nullptr);
}

}  // extern "C"
