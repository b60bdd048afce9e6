#include "src/nccl/errors.hpp"

#include <mutex>

#include "src/nccl/log.hpp"

namespace tutti::nccl {
namespace {

/// The sentence of the process's last error, as NCCL keeps it: threads that watch communicators read what others got.
struct LastError {
  std::mutex mutex;
  std::string sentence;
};

LastError& lastError() {
  static auto* const last = new LastError;  // threads may outlive static destructors
  return *last;
}

void keep(const std::string& sentence) {
  logWarn(sentence);
  LastError& last = lastError();
  const std::lock_guard lock(last.mutex);
  last.sentence = sentence;
}

/// tutti's sentence with the name that the caller knows: "tuttiSend: peer 9 ..." is about ncclSend.
std::string inCallersWords(const char* function, std::string sentence) {
  const size_t colon = sentence.find(": ");
  if (sentence.starts_with("tutti") && colon != std::string::npos && sentence.find(' ') > colon) {
    sentence.erase(0, colon + 2);
  }
  return std::string("nccl") + function + ": " + sentence;
}

}  // namespace

ncclResult_t fail(ncclResult_t result, const char* function, const std::string& sentence) {
  keep(std::string("nccl") + function + ": " + sentence);
  return result;
}

ncclResult_t unsupported(const char* function, const std::string& why) {
  return fail(ncclInvalidUsage, function, "is not supported by Tutti: " + why);
}

ncclResult_t codeOf(tuttiResult_t result) {
  return result == tuttiTimeout ? ncclRemoteError : static_cast<ncclResult_t>(result);
}

ncclResult_t failed(const char* function, tuttiResult_t result) {
  if (result != tuttiInProgress) keep(inCallersWords(function, tuttiGetLastError(nullptr)));
  return codeOf(result);
}

}  // namespace tutti::nccl

using namespace tutti::nccl;

// What broke comm, else the process's last error, which is all that NCCL knows.
NCCL_EXPORT(const char*, GetLastError, (ncclComm_t comm)) {
  static thread_local std::string shown;
  shown.clear();
  const auto handle = reinterpret_cast<tuttiComm_t>(comm);
  tuttiResult_t state = tuttiSuccess;
  const bool answers = comm != nullptr && tuttiCommGetAsyncError(handle, &state) == tuttiSuccess;
  if (answers && state != tuttiSuccess && state != tuttiInProgress) shown = tuttiGetLastError(handle);
  if (shown.empty()) {
    LastError& last = lastError();
    const std::lock_guard lock(last.mutex);
    shown = last.sentence;
  }
  return shown.c_str();
}

// Short: clients put them into sentences of their own.  The first words are NCCL's, as programs and scripts look for
// them.
NCCL_EXPORT(const char*, GetErrorString, (ncclResult_t result)) {
  switch (static_cast<int>(result)) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (NCCL_DEBUG=WARN says more)";
    case ncclSystemError: return "unhandled system error (NCCL_DEBUG=WARN says more)";
    case ncclInternalError: return "internal error of Tutti (NCCL_DEBUG=WARN says more)";
    case ncclInvalidArgument: return "invalid argument (NCCL_DEBUG=WARN says more)";
    case ncclInvalidUsage: return "invalid usage (NCCL_DEBUG=WARN says more)";
    case ncclRemoteError: return "remote process exited or there was a network error (NCCL_DEBUG=WARN says more)";
    case ncclInProgress: return "NCCL operation in progress";
    case 8: return "timeout";
    default: return "unknown result code";
  }
}
