// What the documentation asks of a call, whatever its arguments: a driver that has been started in this process, a
// context, no capture that forbids it.
#include <dlfcn.h>
#include <unistd.h>

#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {
namespace {

/// Of calls that fail without a current context (CUDA_ERROR_INVALID_CONTEXT).
constexpr unsigned kInContext = 1;
/// Of calls that are "potentially unsafe" in captures (cuThreadExchangeStreamCaptureMode).  The documentation names few
/// of them; here they are all that neither enqueue nor only ask.
constexpr unsigned kUnsafe = 2;
/// Of calls that may wait for all that the device has to do.
constexpr unsigned kSyncs = 4;

/// Never destroyed: threads call the driver while the process ends.
const auto& kRules = *new std::map<std::string, unsigned>{
    {"cuDevicePrimaryCtxRetain", kUnsafe},
    {"cuDevicePrimaryCtxRelease", kUnsafe},
    {"cuCtxGetDevice", kInContext},
    {"cuCtxGetStreamPriorityRange", kInContext},
    {"cuCtxEnablePeerAccess", kInContext | kUnsafe | kSyncs},
    {"cuCtxSynchronize", kInContext | kUnsafe},
    {"cuMemAlloc", kInContext | kUnsafe | kSyncs},
    {"cuMemAllocAsync", kInContext},
    {"cuMemAllocManaged", kInContext | kUnsafe | kSyncs},
    {"cuMemFree", kInContext | kUnsafe},  // which waits for the device or not, by what it frees
    {"cuMemFreeAsync", kInContext},
    {"cuMemHostAlloc", kInContext | kUnsafe | kSyncs},
    {"cuMemFreeHost", kInContext | kUnsafe | kSyncs},
    {"cuPointerGetAttributes", kInContext},
    {"cuMemGetAddressRange", kInContext},
    {"cuMemCreate", kUnsafe},
    {"cuMemRelease", kUnsafe},
    {"cuMemRetainAllocationHandle", kUnsafe},
    {"cuMemAddressReserve", kUnsafe},
    {"cuMemAddressFree", kUnsafe},
    {"cuMemMap", kUnsafe | kSyncs},
    {"cuMemUnmap", kUnsafe | kSyncs},
    {"cuMemSetAccess", kUnsafe | kSyncs},
    {"cuMemExportToShareableHandle", kUnsafe},
    {"cuMemImportFromShareableHandle", kUnsafe},
    {"cuMemGetHandleForAddressRange", kInContext | kUnsafe},
    {"cuFlushGPUDirectRDMAWrites", kInContext | kUnsafe},
    {"cuMemcpyAsync", kInContext},
    {"cuMemsetD8Async", kInContext},
    {"cuMemsetD32Async", kInContext},
    {"cuIpcGetMemHandle", kInContext | kUnsafe},
    {"cuIpcOpenMemHandle", kInContext | kUnsafe | kSyncs},
    {"cuIpcCloseMemHandle", kInContext | kUnsafe | kSyncs},
    {"cuStreamCreate", kInContext | kUnsafe},
    {"cuStreamCreateWithPriority", kInContext | kUnsafe},
    {"cuStreamDestroy", kInContext | kUnsafe},
    {"cuStreamSynchronize", kInContext | kUnsafe},
    {"cuStreamQuery", kInContext | kUnsafe},
    {"cuStreamWaitEvent", kInContext},
    {"cuStreamWaitValue32", kInContext},
    {"cuStreamWriteValue32", kInContext},
    {"cuStreamBatchMemOp", kInContext},
    {"cuEventCreate", kInContext},
    {"cuEventDestroy", kInContext},
    {"cuEventRecord", kInContext},
    {"cuEventQuery", kUnsafe},
    {"cuEventSynchronize", kInContext | kUnsafe},
    {"cuLaunchHostFunc", kInContext},
    {"cuLaunchKernel", kInContext},
    {"cuLaunchCooperativeKernel", kInContext},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", kInContext},
    {"cuModuleLoadData", kInContext | kUnsafe | kSyncs},
    {"cuModuleGetFunction", kInContext | kUnsafe | kSyncs},
    {"cuModuleUnload", kInContext | kUnsafe | kSyncs},
    {"cuGraphLaunch", kInContext},
};

unsigned rulesOf(const char* name) {
  const auto found = kRules.find(name);
  return found == kRules.end() ? 0 : found->second;
}

/// How the call fails if calls are made to fail by number (tests/faults).
Error fault() {
  static const auto next = reinterpret_cast<Error (*)()>(dlsym(RTLD_DEFAULT, "tuttiFaultDriver"));
  return next == nullptr ? kSuccess : next();
}

/// Counts the call, and says how it fails if a test wants it to.
Error count(const char* name) {
  if (const Error error = fault(); error != kSuccess) return error;
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  ++m.calls[name];
  if (m.journal.empty() || m.journal.back().first != name) m.journal.emplace_back(name, 0);
  ++m.journal.back().second;
  if (m.settings.failCall > 0 && m.settings.failName == name && --m.settings.failCall == 0) return m.settings.failWith;
  return kSuccess;
}

/// Whose driver this is: no child that has been forked from a process has one.
Error checkProcess(const char* name) {
  static std::atomic<pid_t> started{0};
  if (std::string_view(name) == "cuInit" && started == 0) started = getpid();
  return started == getpid() || std::string_view(name) == "cuDriverGetVersion" ? kSuccess : kErrorNotInitialized;
}

}  // namespace

Error enter(const char* name) {
  if (const Error error = checkProcess(name); error != kSuccess) return error;
  if (const Error error = count(name); error != kSuccess) return error;
  const unsigned rules = rulesOf(name);
  const Context context = currentContext();
  if ((rules & kInContext) != 0 && context == nullptr) return kErrorInvalidContext;
  if ((rules & kInContext) != 0 && !isAlive(context)) return kErrorContextDestroyed;
  if ((rules & kUnsafe) != 0 && captureForbids(name)) return kErrorCaptureUnsupported;
  if ((rules & kSyncs) != 0) mayWaitForDevice(name);
  return kSuccess;
}

void note(const std::string& text) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  m.journal.emplace_back(text, 1);
}

}  // namespace tutti::fake
